package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	kjson "sigs.k8s.io/json"
)

// decode reads a document into a typed object. A field of the wrong type is an error, an unknown one
// a doubt.
func (b *batch) decode(d *document, into any) bool {
	doubts, err := kjson.UnmarshalStrict(d.raw, into)
	if err != nil {
		field, text := explain(err)
		b.fail(d, field, text)
		return false
	}
	for _, doubt := range doubts {
		field, text := unknownField(doubt)
		b.doubt(d, field, text)
	}
	return true
}

// explain turns a decoding error into the field and what it should hold.
func explain(err error) (field, text string) {
	wrong, isType := errors.AsType[*json.UnmarshalTypeError](err)
	if !isType {
		return "", "cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	return wrong.Field, fmt.Sprintf("holds %s, want %s", article(wrong.Value), article(kindName(wrong.Type.String())))
}

// kindName names a Go type as a user of YAML would.
func kindName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "list"
	case strings.HasPrefix(goType, "map["), strings.Contains(goType, "v1."):
		return "mapping"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "whole number"
	case strings.HasPrefix(goType, "float"):
		return "number"
	default:
		return goType
	}
}

func article(noun string) string {
	if noun == "array" || noun == "object" {
		return "an " + noun
	}
	return "a " + noun
}

// unknownField takes the path out of the decoder's message: unknown field "spec.foo".
func unknownField(err error) (field, text string) {
	m := regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`).FindStringSubmatch(err.Error())
	if m == nil {
		return "", err.Error()
	}
	if m[1] == "duplicate" {
		return m[2], "appears twice; the last one counts"
	}
	return m[2], "is not a known field and is left out; check its spelling"
}
