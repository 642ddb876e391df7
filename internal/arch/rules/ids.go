package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	// An id as prose writes it: NP-11, S-075, V15-07, G8; with a dot it is a section, API-2.2, SC-3.4c.
	written = regexp.MustCompile(`\b(?:(?:NP|NC|CV|LC|L|SC|S|V15|EC|OV|CB|DR|IR|RH|EX|WI|TV|WP|LG|RP|AD|API)-[0-9]+(?:(?:\.[0-9]+)+[a-z]?)?|G(?:1[0-4]|[1-9]))\b`)

	// A range of ids; the family may be left out at its end.
	ranged = regexp.MustCompile(`\b((?:NP|NC|CV|LC|L|SC|S|V15)-)([0-9]+)(?:\.\.|…|–)(?:NP-|NC-|CV-|LC-|L-|SC-|S-|V15-)?([0-9]+)\b`)

	// An id as the name of a test writes it: TestNP_11_Foo, TestNP11Foo, TestFoo_S_075. The width is
	// fixed so that a plain word with a digit is no citation.
	named = regexp.MustCompile(`(?:^|_|[a-z])(?:(NP|NC|CV|LC|L|SC|V15|EC|OV|CB|DR|IR|RH|EX|WI|TV|WP|LG|RP|AD)_?([0-9]{2})|(S)_?([0-9]{3})|(G)_?(1[0-4]|[1-9]))(?:$|[^0-9])`)

	// Failure modes: FM A05, TestFM_A05_B11_Foo, (FM L01, L18 and N16).
	failures = regexp.MustCompile(`FM[ _-]((?:[A-FH-NP][0-9]{2}(?:, | and |, and |_|/)?)+)`)
	failure  = regexp.MustCompile(`[A-FH-NP][0-9]{2}`)

	prefix = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)_?`)
)

// inText returns the ids a text cites, ranges spelt out.
func inText(text string) []string {
	ids := append(written.FindAllString(text, -1), failuresIn(text)...)
	for _, m := range ranged.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[3])
		for n := first; n <= min(last, 999); n++ {
			ids = append(ids, fmt.Sprintf("%s%0*d", m[1], len(m[2]), n))
		}
	}
	return ids
}

// inName returns the ids the name of a test function cites.
func inName(name string) []string {
	ids := failuresIn(name)
	// Failure modes and leniencies share the letter L: FM_L19 is not L-19.
	rest := failures.ReplaceAllString(prefix.ReplaceAllString(name, ""), "_")
	for rest != "" {
		m := named.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return rest[m[2*n]:m[2*n+1]]
		}
		end := 0
		switch {
		case group(1) != "":
			ids, end = append(ids, group(1)+"-"+group(2)), m[5]
		case group(3) != "":
			ids, end = append(ids, group(3)+"-"+group(4)), m[9]
		default:
			ids, end = append(ids, group(5)+group(6)), m[13]
		}
		rest = rest[end:]
	}
	return ids
}

// failuresIn returns the failure modes a text cites.
func failuresIn(text string) []string {
	var ids []string
	for _, m := range failures.FindAllStringSubmatch(text, -1) {
		for _, id := range failure.FindAllString(m[1], -1) {
			ids = append(ids, "FM-"+id)
		}
	}
	return ids
}

// family is the part of an id before its number.
func family(id string) string {
	if name, _, found := strings.Cut(id, "-"); found {
		return name
	}
	return strings.TrimRight(id, "0123456789")
}

// compareIDs orders by family, then by number.
func compareIDs(a, b string) int {
	return cmp.Or(
		cmp.Compare(family(a), family(b)),
		cmp.Compare(len(a), len(b)),
		cmp.Compare(a, b),
	)
}
