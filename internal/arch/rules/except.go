package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// exceptions is the marker of a list of rules that no test can show.
const exceptions = "cannot be tested here"

var (
	// The ids of an item stand before its colon, the reason behind it.
	item = regexp.MustCompile(`^- ([^:]+): (.+)$`)

	// A line that begins with neither a dash nor nothing goes on with the item before it.
	continued = regexp.MustCompile(`\n[ \t]+([^-\s])`)

	// A failure mode without the FM before it, as lists of failure modes write it: A04, E10 to E12.
	bare       = regexp.MustCompile(`\b[A-FH-NP][0-9]{2}\b`)
	bareRanged = regexp.MustCompile(`\b([A-FH-NP])([0-9]{2}) to ([A-FH-NP])([0-9]{2})\b`)
)

// readExceptions reads the lists of a file of rules that cannot be tested. Such a list is a comment of
// its own, and has the marker in front of its items.
func readExceptions(fset *token.FileSet, file *ast.File, found *findings) {
	for _, comment := range file.Comments {
		_, list, marked := strings.Cut(comment.Text(), exceptions)
		if !marked {
			continue
		}
		at := fset.Position(comment.Pos())
		for line := range strings.Lines(continued.ReplaceAllString(list, " $1")) {
			if m := item.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				found.except(cite{at.Filename, at.Line, m[2]}, inItem(m[1]))
			}
		}
	}
}

// inItem returns the ids in front of the colon of an item.
func inItem(text string) []string {
	ids := inText(text)
	for _, id := range bare.FindAllString(text, -1) {
		ids = append(ids, "FM-"+id)
	}
	for _, m := range bareRanged.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[4])
		for n := first; n <= last && m[1] == m[3]; n++ {
			ids = append(ids, fmt.Sprintf("FM-%s%02d", m[1], n))
		}
	}
	return ids
}
