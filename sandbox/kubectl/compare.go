package kubectl

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Field is one part of an object.
type Field struct {
	Path  string // such as .spec.limits.cpu
	Value any
}

// String renders the field on one line.
func (f Field) String() string { return f.Path + ": " + inlineText(f.Value) }

// Lost describes each part of want that have lacks or holds differently. What have holds besides is
// not compared, in list elements neither; a null in want requests nothing.
func Lost(want, have any) []string {
	var lost []string
	walkDifferences(want, have, "", func(path string, want, have any, both bool) {
		switch {
		case want == nil:
		case !both:
			lost = append(lost, fmt.Sprintf("%s: %s is gone", path, inlineText(want)))
		default:
			lost = append(lost, fmt.Sprintf("%s: %s became %s", path, inlineText(want), inlineText(have)))
		}
	})
	return lost
}

// Added returns each part of have that want lacks.
func Added(want, have any) []Field {
	var added []Field
	walkDifferences(have, want, "", func(path string, value, _ any, both bool) {
		if !both {
			added = append(added, Field{path, value})
		}
	})
	return added
}

func inlineText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// walkDifferences calls differ for each part of a that b lacks (both is false) or holds differently.
func walkDifferences(a, b any, path string, differ func(path string, a, b any, both bool)) {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok {
			differ(path, a, b, b != nil)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(a)) {
			below := path + "." + key
			if value, found := other[key]; found {
				walkDifferences(a[key], value, below, differ)
			} else {
				differ(below, a[key], nil, false)
			}
		}
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			differ(path, a, b, b != nil)
			return
		}
		for i := range a {
			walkDifferences(a[i], other[i], fmt.Sprintf("%s[%d]", path, i), differ)
		}
	default:
		if !reflect.DeepEqual(a, b) {
			differ(path, a, b, true)
		}
	}
}
