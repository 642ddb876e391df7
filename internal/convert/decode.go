package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"github.com/dovetail-sh/dovetail/internal/near"
)

// decode reads a document into a typed object. A field of the wrong type is an error, and so is one that is a
// known one mistyped: what it was to say would be lost. Any other unknown field is a doubt.
func (b *batch) decode(d *document, into any) bool { return b.decodePart(d, "", d.raw, into) }

// decodePart does it for the part of a document at a path.
func (b *batch) decodePart(d *document, at string, raw []byte, into any) bool {
	below := func(field string) string { return strings.Trim(at+"."+field, ".") }
	doubts, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		field, text := explain(err)
		if path, have, found := badQuantity(d.tree, ""); field == "" && found {
			b.fail(d, path, strconv.Quote(have)+" is not a quantity; want a number with an optional suffix, such as 100m, 4 or 16Gi")
			return false
		}
		b.fail(d, below(field), text)
		return false
	}
	for _, doubt := range doubts {
		field, text, unknown := unknownField(doubt)
		name := field[strings.LastIndexByte(field, '.')+1:]
		if hint := near.Hint(name, siblings(reflect.TypeOf(into), field)); unknown && hint != "" {
			b.fail(d, below(field), "is not a known field"+hint)
			continue
		}
		b.warnOrFail(d, below(field), text)
	}
	return true
}

// explain turns a decoding error into the field and what it should hold.
func explain(err error) (field, text string) {
	wrong, isType := errors.AsType[*json.UnmarshalTypeError](err)
	if !isType {
		return "", "cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	return wrong.Field, fmt.Sprintf("holds %s, want %s", article(wrong.Value), article(kindName(wrong.Type)))
}

// badQuantity finds the quantity that does not parse: the decoder does not say where it was. Paths
// are looked through in order of name, so that the result is always the same.
func badQuantity(node any, at string) (field, have string, found bool) {
	switch node := node.(type) {
	case map[string]any:
		parent := at[strings.LastIndexByte(at, '.')+1:]
		for _, name := range slices.Sorted(maps.Keys(node)) {
			path := strings.TrimPrefix(at+"."+name, ".")
			quantities := parent == "limits" || parent == "resources" || parent == "requests" || name == "volumeSize"
			if text, isScalar := scalar(node[name]); isScalar && quantities {
				if _, err := resource.ParseQuantity(text); err != nil {
					return path, text, true
				}
			}
			if field, have, found = badQuantity(node[name], path); found {
				return field, have, true
			}
		}
	case []any:
		for i, inner := range node {
			if field, have, found = badQuantity(inner, at+"["+strconv.Itoa(i)+"]"); found {
				return field, have, true
			}
		}
	}
	return "", "", false
}

// kindName names a Go type as a user of YAML would.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Map, reflect.Struct:
		return "mapping"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	default:
		return "whole number"
	}
}

func article(noun string) string {
	if noun == "array" || noun == "object" {
		return "an " + noun
	}
	return "a " + noun
}

// unknownField takes the path out of the decoder's message: unknown field "spec.foo".
func unknownField(err error) (field, text string, unknown bool) {
	m := regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`).FindStringSubmatch(err.Error())
	if m == nil {
		return "", err.Error(), false
	}
	if m[1] == "duplicate" {
		return m[2], "appears twice; the last one counts", false
	}
	return m[2], "is not a known field and is left out; check its spelling", true
}

// siblings are the fields that a type has beside the one at a path, sorted.
func siblings(t reflect.Type, path string) []string {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		name, _, _ := strings.Cut(part, "[")
		known := fieldsOf(t)
		if known[name] == nil {
			return nil
		}
		t = known[name]
	}
	return slices.Sorted(maps.Keys(fieldsOf(t)))
}

// fieldsOf lists the fields of a struct, of a list of them or of what points to them, by their JSON names.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, fieldsOf(f.Type))
		case name != "" && name != "-":
			out[name] = f.Type
		}
	}
	return out
}
