package classes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Change is a valid class before and after one field was changed to another valid value.
type Change struct {
	Field         string // where it is, without the places in lists: spec.blockDeviceMappings.ebs.iops
	Before, After *awsv1.EC2NodeClass
}

// Changes returns at least one change of every field of spec and status. It fails if no sample sets one,
// or if the samples cannot be read.
func Changes() ([]Change, error) {
	var all []Change
	missing := slices.Concat(leaves(reflect.TypeFor[awsv1.EC2NodeClassSpec](), "spec"), leaves(reflect.TypeFor[awsv1.EC2NodeClassStatus](), "status"))
	fields := slices.Clone(missing)
	for _, sample := range samples() {
		text, err := yaml.YAMLToJSONStrict([]byte(sample))
		if err != nil {
			return nil, err
		}
		for _, field := range fields {
			c, found, err := changeSample(text, field)
			if err != nil {
				return nil, fmt.Errorf("change %s: %w", field, err)
			}
			if found {
				all = append(all, c)
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == field })
			}
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no class in internal/check/classes sets %s: give it a value in samples and, if need be, another one in others", strings.Join(missing, ", "))
	}
	return all, nil
}

// leaves are the paths of the fields of a type that have no fields themselves, as JSON names them. What
// writes its own JSON, such as a quantity, is one.
func leaves(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return []string{path}
	}
	var list []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // inline
			list = append(list, leaves(field.Type, path)...)
		} else {
			list = append(list, leaves(field.Type, path+"."+name)...)
		}
	}
	return list
}

// changeSample changes a field of a sample in JSON, if that sets it.
func changeSample(sample []byte, field string) (Change, bool, error) {
	var tree map[string]any
	if err := json.Unmarshal(sample, &tree); err != nil {
		return Change{}, false, err
	}
	if !changeField(tree, strings.Split(field, "."), field) {
		return Change{}, false, nil
	}
	changed, err := json.Marshal(tree)
	if err != nil {
		return Change{}, false, err
	}
	c := Change{Field: field, Before: &awsv1.EC2NodeClass{}, After: &awsv1.EC2NodeClass{}}
	return c, true, errors.Join(decodeStrict(sample, c.Before), decodeStrict(changed, c.After))
}

func decodeStrict(text []byte, class *awsv1.EC2NodeClass) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(class)
}

// changeField changes what a path leads to, in the last element of each list that has it.
func changeField(node any, path []string, field string) bool {
	switch node := node.(type) {
	case []any:
		for _, element := range slices.Backward(node) {
			if changeField(element, path, field) {
				return true
			}
		}
	case map[string]any:
		value, found := node[path[0]]
		if !found || len(path) > 1 {
			return found && changeField(value, path[1:], field)
		}
		other, named := others()[field]
		if !named {
			other = different(value)
		}
		if node[path[0]] = other; other == nil {
			delete(node, path[0])
		}
		return true
	}
	return false
}

// different is another value of the same kind.
func different(value any) any {
	switch value := value.(type) {
	case string:
		return value + "x"
	case bool:
		return !value
	case float64:
		return value + 1
	case []any:
		list := make([]any, 0, len(value))
		for _, element := range value {
			list = append(list, different(element))
		}
		return list
	case map[string]any:
		out := map[string]any{}
		for key, inner := range value {
			out[key] = different(inner)
		}
		return out
	}
	return value
}

// Unnoticed says what is wrong about a digest: fields that it does not depend on and that are not listed as
// such, fields that are listed but change it, and names in the list that are no fields. The list is by field,
// or by a field that others are part of, and holds the reasons.
func Unnoticed(digest func(*awsv1.EC2NodeClass) string, listed map[string]string) ([]string, error) {
	changes, err := Changes()
	if err != nil {
		return nil, err
	}
	var wrong []string
	used := map[string]bool{}
	for _, c := range changes {
		entry, exempt := Listed(c.Field, listed)
		used[entry] = used[entry] || exempt
		switch same := digest(c.Before) == digest(c.After); {
		case same && !exempt:
			wrong = append(wrong, c.Field+" does not change the digest; add it, or list it with the reason why it must not matter")
		case !same && exempt:
			wrong = append(wrong, c.Field+" changes the digest, but is listed as a field that does not: "+listed[entry])
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(listed)) {
		if !used[entry] {
			wrong = append(wrong, entry+" is listed but is no field")
		}
	}
	return slices.Compact(wrong), nil
}

// Listed returns the entry of a list that covers a field.
func Listed(field string, listed map[string]string) (entry string, found bool) {
	for entry = field; ; entry = entry[:strings.LastIndex(entry, ".")] {
		if _, found = listed[entry]; found || !strings.Contains(entry, ".") {
			return entry, found
		}
	}
}
