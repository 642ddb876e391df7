package wire

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Form is the parameters of a query request, or a part of them. The zero value has none.
type Form struct {
	values url.Values
	prefix string // with the trailing dot; empty at the root
}

// NewForm returns the form of some parameters, for tests.
func NewForm(values url.Values) Form { return Form{values: values} }

// String returns a parameter, or "".
func (f Form) String(name string) string { return f.values.Get(f.prefix + name) }

// Has reports whether a parameter, or one below it, was sent.
func (f Form) Has(name string) bool {
	if f.values.Has(f.prefix + name) {
		return true
	}
	for key := range f.values {
		if strings.HasPrefix(key, f.prefix+name+".") {
			return true
		}
	}
	return false
}

// Bool returns a parameter that is true or false.
func (f Form) Bool(name string) bool { return f.String(name) == "true" }

// Int returns a number; what is absent or no number is the fallback.
func (f Form) Int(name string, fallback int) int {
	n, err := strconv.Atoi(f.String(name))
	if err != nil {
		return fallback
	}
	return n
}

// Time returns a time, or zero.
func (f Form) Time(name string) time.Time {
	t, err := time.Parse(time.RFC3339, f.String(name))
	if err != nil {
		return time.Time{}
	}
	return t
}

// Sub returns the parameters below a name.
func (f Form) Sub(name string) Form { return Form{values: f.values, prefix: f.prefix + name + "."} }

// List returns the elements of a list of structures: Name.1.x, Name.2.x, with or without .member.
// Elements are counted from 1 without gaps, as every client sends them.
func (f Form) List(name string) []Form {
	name = f.listName(name)
	var list []Form
	for i := 1; f.Has(name + "." + strconv.Itoa(i)); i++ {
		list = append(list, f.Sub(name+"."+strconv.Itoa(i)))
	}
	return list
}

// Strings returns the elements of a list of texts: Name.1, Name.2, with or without .member.
func (f Form) Strings(name string) []string {
	name = f.listName(name)
	var list []string
	for i := 1; f.values.Has(f.prefix + name + "." + strconv.Itoa(i)); i++ {
		list = append(list, f.String(name+"."+strconv.Itoa(i)))
	}
	return list
}

func (f Form) listName(name string) string {
	if f.Has(name + ".member") {
		return name + ".member"
	}
	return name
}

// Map returns every parameter of the form by its name below the prefix, for recording.
func (f Form) Map() map[string]string {
	out := map[string]string{}
	for key, values := range f.values {
		if name, found := strings.CutPrefix(key, f.prefix); found && len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out
}
