package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// An explanation is read by people, or by a program on their behalf: past these bounds it hides what
// matters, and the largest come first.
const (
	shownGroups  = 6  // groups of pods that are named for one kind of node
	shownRefused = 20 // kinds of pods without a place
	shownNodes   = 30 // kinds of nodes, launched or kept
)

// leftOut counts what an explanation does not show.
type leftOut struct {
	Kinds int `json:"kinds"`
	Count int `json:"count"` // pods or nodes of these kinds
}

// keepFirst keeps the first of a list and counts the rest; it is nil if nothing was left out.
func keepFirst[T any](list []T, most int, size func(*T) int) ([]T, *leftOut) {
	if len(list) <= most {
		return list, nil
	}
	out := &leftOut{Kinds: len(list) - most}
	for i := range list[most:] {
		out.Count += size(&list[most+i])
	}
	return slices.Clip(list[:most]), out
}

// line says what is left out: "and 3 more kinds of pods (7 pods)".
func (l *leftOut) line(indent, one, many string) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%sand %d more %s of %s (%s)\n", indent, l.Kinds, plural(l.Kinds, "kind", "kinds"), many, count(l.Count, one, many))
}

// advice is what can be done about reasons, by code.
type advice map[reason.Code]string

func (a advice) add(codes []reason.Code) {
	for _, code := range codes {
		if doc, known := reason.Lookup(code); known {
			a[code] = doc.Fix
		}
	}
}

// writeOnce returns a writer that gives the advice for each code the first time the code appears.
func (a advice) writeOnce() func(b *strings.Builder, codes []reason.Code) {
	left := maps.Clone(a)
	return func(b *strings.Builder, codes []reason.Code) {
		for _, code := range codes {
			if fix, first := left[code]; first {
				fmt.Fprintf(b, "    what to do (%s): %s\n", code, fix)
				delete(left, code)
			}
		}
	}
}

// codes lists the codes of reasons and of their causes, each once, in the order of the text.
func codes(why []reason.Reason) []reason.Code {
	var list []reason.Code
	for i := range why {
		for _, code := range append([]reason.Code{why[i].Code}, codes(why[i].Because)...) {
			if !slices.Contains(list, code) {
				list = append(list, code)
			}
		}
	}
	return list
}
