package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"github.com/dovetail-sh/dovetail/internal/near"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Path string // "$.nodePools[2].spec.weight"; empty where the file is not JSON
	Text string
}

// Faults is why a file was refused, in the order of the file.
type Faults []Fault

// shownFaults bounds the message: the first few are usually the cause of the rest.
const shownFaults = 8

// Error lists the faults, one to a line.
func (f Faults) Error() string {
	lines := make([]string, 0, shownFaults+1)
	for i, fault := range f {
		if i == shownFaults {
			lines = append(lines, "and "+strconv.Itoa(len(f)-i)+" more")
			break
		}
		if fault.Path == "" {
			lines = append(lines, fault.Text)
			continue
		}
		lines = append(lines, fault.Path+": "+fault.Text)
	}
	return strings.Join(lines, "\n")
}

func (f *Faults) add(path, format string, args ...any) {
	*f = append(*f, Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

// decode reads data into out. Only when the library refuses does it look for the place: the library
// names fields without the index of the list element they are in.
func decode(data []byte, out any) Faults {
	strict, err := kjson.UnmarshalStrict(data, out)
	if err == nil && len(strict) == 0 {
		return nil
	}
	var faults Faults
	if bad, offset := kjson.SyntaxErrorOffset(err); bad {
		line, column := position(data, offset)
		faults.add("", "line %d, column %d: not JSON: %v", line, column, err)
		return faults
	}
	l := locator{}
	l.look("$", bytes.TrimSpace(data), reflect.TypeOf(out))
	if len(l.faults) > 0 {
		return l.faults
	}
	for _, e := range append(strict, err) { // a field that appears twice comes here
		if e != nil {
			faults.add("$", "%v", e)
		}
	}
	return faults
}

func position(data []byte, offset int64) (line, column int) {
	before := data[:min(int(offset), len(data))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// locator finds the values of a document that do not fit their Go types.
type locator struct{ faults Faults }

func (l *locator) look(path string, data []byte, t reflect.Type) {
	if string(data) == "null" {
		return
	}
	for t.Kind() == reflect.Pointer && !decodesItself(t) {
		t = t.Elem()
	}
	if decodesItself(t) || decodesItself(reflect.PointerTo(t)) {
		l.leaf(path, data, t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		l.object(path, data, fieldsOf(t))
	case reflect.Map:
		l.mapping(path, data, t.Elem())
	case reflect.Slice:
		l.list(path, data, t.Elem())
	default:
		l.leaf(path, data, t)
	}
}

func decodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Unmarshaler]())
}

func (l *locator) object(path string, data []byte, fields map[string]reflect.Type) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		l.faults.add(path, "%s; want an object", describe(data))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if t, known := fields[name]; known {
			l.look(path+"."+name, members[name], t)
			continue
		}
		l.faults.add(path+"."+name, "unknown field%s", near.Hint(name, slices.Sorted(maps.Keys(fields))))
	}
}

func (l *locator) mapping(path string, data []byte, t reflect.Type) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		l.faults.add(path, "%s; want an object", describe(data))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		l.look(path+key(name), members[name], t)
	}
}

func (l *locator) list(path string, data []byte, t reflect.Type) {
	var elements []json.RawMessage
	if json.Unmarshal(data, &elements) != nil {
		l.faults.add(path, "%s; want a list", describe(data))
		return
	}
	for i, e := range elements {
		l.look(index(path, i), e, t)
	}
}

func (l *locator) leaf(path string, data []byte, t reflect.Type) {
	err := json.Unmarshal(data, reflect.New(t).Interface())
	switch {
	case err == nil:
	case t == reflect.TypeFor[resource.Quantity]():
		l.faults.add(path, "%s is not a quantity; want a number with an optional suffix, such as 500m, 2 or 4Gi", data)
	case t.Kind() == reflect.String:
		l.faults.add(path, "%s; want a string", describe(data))
	case t.Kind() == reflect.Bool:
		l.faults.add(path, "%s; want true or false", describe(data))
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		l.faults.add(path, "%s; want a whole number", describe(data))
	case t.Kind() == reflect.Float32, t.Kind() == reflect.Float64:
		l.faults.add(path, "%s; want a number", describe(data))
	default:
		l.faults.add(path, "%v", err)
	}
}

// describe says what a value is, shortened: the path already says where it is.
func describe(data []byte) string {
	switch data[0] {
	case '{':
		return "this is an object"
	case '[':
		return "this is a list"
	case '"':
		const longest = 40
		if len(data) > longest {
			return string(data[:longest]) + `…" is a string`
		}
		return string(data) + " is a string"
	}
	return string(data)
}

// fieldsOf lists the JSON fields of a struct, those of embedded structs included.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			maps.Copy(fields, fieldsOf(f.Type))
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}

// key is a step into a map: with a dot where that reads well, in brackets where the name has dots.
func key(name string) string {
	if name != "" && !strings.ContainsAny(name, "./[] ") {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
