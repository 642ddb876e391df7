package script

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Line is one command with its arguments. Its readers keep the first fault and return zero
// values from then on, so that a command reads everything it needs and looks at the fault once.
type Line struct {
	Number  int
	Command string
	args    []arg
	fault   error
}

type arg struct {
	key, value string
	bare       bool // written without "="
	read       bool
}

// parseLine splits at spaces; double quotes hold words together and are dropped.
func parseLine(number int, text string) (*Line, error) {
	l := &Line{Number: number}
	var words []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted, r == '\t' && !quoted:
			flush()
		default:
			word.WriteRune(r)
		}
	}
	if quoted {
		return nil, fmt.Errorf(`line %d: a quote is not closed; write key="words with spaces"`, number)
	}
	flush()
	l.Command = words[0]
	for _, w := range words[1:] {
		key, value, hasValue := strings.Cut(w, "=")
		l.args = append(l.args, arg{key: key, value: value, bare: !hasValue})
	}
	return l, nil
}

// Failf records what is wrong with the line. The text should end with what to write instead.
func (l *Line) Failf(format string, args ...any) {
	if l.fault == nil {
		l.fault = fmt.Errorf(format, args...)
	}
}

// finish returns the first fault, or that an argument was not understood.
func (l *Line) finish(usage string) error {
	for _, a := range l.args {
		if !a.read {
			l.Failf("argument %q is not known", a.key)
		}
	}
	if l.fault == nil {
		return nil
	}
	return fmt.Errorf("line %d: %s: %w; usage: %s", l.Number, l.Command, l.fault, usage)
}

// All returns the values of an argument that may repeat.
func (l *Line) All(key string) []string {
	var values []string
	for i := range l.args {
		a := &l.args[i]
		if a.key != key || a.bare {
			continue
		}
		a.read = true
		values = append(values, a.value)
	}
	return values
}

// Text returns the value of an argument, "" if it is absent.
func (l *Line) Text(key string) string {
	switch values := l.All(key); len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	default:
		l.Failf("%s= is given %d times; give it once", key, len(values))
		return ""
	}
}

// Name returns an argument that must be there.
func (l *Line) Name(key string) string {
	value := l.Text(key)
	if value == "" {
		l.Failf("%s= is missing; write %s=something", key, key)
	}
	return value
}

// Flag reports whether a bare word is among the arguments.
func (l *Line) Flag(key string) bool {
	found := false
	for i := range l.args {
		if a := &l.args[i]; a.key == key && a.bare {
			a.read, found = true, true
		}
	}
	return found
}

// Bare returns the bare words not read so far.
func (l *Line) Bare() []string {
	var words []string
	for i := range l.args {
		if a := &l.args[i]; a.bare && !a.read {
			a.read = true
			words = append(words, a.key)
		}
	}
	return words
}

// Int returns an argument that is a whole number.
func (l *Line) Int(key string, absent int) int {
	value := l.Text(key)
	if value == "" {
		return absent
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		l.Failf("%s=%s is not a whole number", key, value)
	}
	return n
}

// Price returns an argument that is an amount of money.
func (l *Line) Price(key string) float64 {
	value := l.Text(key)
	if value == "" {
		return 0
	}
	return l.amount(key, value)
}

func (l *Line) amount(key, value string) float64 {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n < 0 {
		l.Failf("%s=%s is not an amount; write a number such as 0.17", key, value)
	}
	return n
}

// List returns a comma-separated argument.
func (l *Line) List(key string) []string {
	return split(l.Text(key), ",")
}

// Pairs returns an argument of the form key:value,key:value. Short names stand for full keys.
func (l *Line) Pairs(key string) map[string]string {
	pairs := map[string]string{}
	for _, values := range l.All(key) {
		for _, pair := range split(values, ",") {
			name, value, found := strings.Cut(pair, ":")
			if !found {
				l.Failf("%s=%s has no colon; write %s=key:value", key, pair, key)
			}
			pairs[Key(name)] = value
		}
	}
	return pairs
}

// Resources returns an argument of the form cpu:1,memory:2Gi.
func (l *Line) Resources(key string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, pair := range l.List(key) {
		name, value, found := strings.Cut(pair, ":")
		if !found {
			l.Failf("%s=%s has no colon; write %s=cpu:4", key, pair, key)
			continue
		}
		list[resourceName(name)] = l.quantity(name, value)
	}
	return list
}

// Amounts returns the arguments that name resources: cpu=, memory=, storage=, pods= and every key
// with a slash, such as nvidia.com/gpu=1.
func (l *Line) Amounts() corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := range l.args {
		a := &l.args[i]
		known := a.key == "cpu" || a.key == "memory" || a.key == "storage" || a.key == "pods"
		if a.bare || !known && !strings.Contains(a.key, "/") {
			continue
		}
		a.read = true
		list[resourceName(a.key)] = l.quantity(a.key, a.value)
	}
	return list
}

func (l *Line) quantity(key, value string) resource.Quantity {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		l.Failf("%s=%s is not a quantity; write a number such as 500m, 4 or 8Gi", key, value)
	}
	return q
}

func resourceName(name string) corev1.ResourceName {
	if name == "storage" {
		return corev1.ResourceEphemeralStorage
	}
	return corev1.ResourceName(name)
}

// split cuts at a separator and drops spaces around the parts and empty parts.
func split(text, separator string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
