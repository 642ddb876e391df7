package config

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultCPUMillis stands in for a CPU request that says nothing: one core.
const defaultCPUMillis = 1000

// Boolean accepts exactly true and false.
func Boolean(at *bool) Reader {
	return Reader{kind: "bool", read: func(g given, f *findings) {
		value, ok := parseBool(g.text)
		if !ok {
			f.refuse(g, "true or false")
			return
		}
		*at = value
	}}
}

func parseBool(s string) (value, ok bool) {
	return s == "true", s == "true" || s == "false"
}

// Integer accepts the whole numbers that valid says.
func Integer[T int | int64](at *T, valid func(T) bool, want string) Reader {
	return Reader{kind: "int", read: func(g given, f *findings) {
		value, err := strconv.ParseInt(g.text, 10, 64)
		if err != nil || int64(T(value)) != value || !valid(T(value)) {
			f.refuse(g, want)
			return
		}
		*at = T(value)
	}}
}

func anyNumber[T int | int64](T) bool { return true }

func port(n int) bool { return n >= 0 && n <= math.MaxUint16 }

func oneOrMore(n int) bool { return n >= 1 }

// notZero is for rates: for 0 the client would silently take its own, very low rate.
func notZero(n int) bool { return n != 0 }

// millicores replaces a request that says nothing.
func millicores(at *int) Reader {
	r := Integer(at, anyNumber, "a whole number of millicores")
	read := r.read
	r.read = func(g given, f *findings) {
		if read(g, f); *at <= 0 {
			*at = defaultCPUMillis
		}
	}
	return r
}

// Fraction accepts finite numbers of 0 or more.
func Fraction(at *float64) Reader {
	return Reader{kind: "float", read: func(g given, f *findings) {
		value, err := strconv.ParseFloat(g.text, 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			f.refuse(g, "a number of 0 or more, such as 0.075")
			return
		}
		*at = value
	}}
}

// shares accepts names with a share each, such as m5.large=0.1,c5.large/eu-west-1a=0.2.
func shares(at *map[string]float64) Reader {
	return Reader{kind: "string", read: func(g given, f *findings) {
		*at = nil
		for part := range strings.SplitSeq(g.text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			name, number, _ := strings.Cut(part, "=")
			value, err := strconv.ParseFloat(number, 64)
			instanceType, zone, zonal := strings.Cut(name, "/")
			if _, twice := (*at)[name]; twice || err != nil || !(value >= 0 && value <= 1) || instanceType == "" || zonal && zone == "" {
				f.refusePart(g, part, "an instance type or type/zone, each once, and a share from 0 to 1, such as m5.large=0.1")
				continue
			}
			if *at == nil {
				*at = map[string]float64{}
			}
			(*at)[name] = value
		}
	}}
}

// Period accepts durations in Go's syntax, not shorter than shortest.
func Period(at *time.Duration, shortest time.Duration, want string) Reader {
	return Reader{kind: "duration", read: func(g given, f *findings) {
		value, err := time.ParseDuration(g.text)
		if err != nil || value < shortest {
			f.refuse(g, want)
			return
		}
		*at = value
	}}
}

// Text accepts what valid says.
func Text(at *string, valid func(string) bool, want string) Reader {
	return Converted(at, func(text string) (string, bool) { return text, valid(text) }, want)
}

// Converted accepts what convert can read, and keeps what it makes of it.
func Converted(at *string, convert func(text string) (value string, ok bool), want string) Reader {
	return Reader{kind: "string", read: func(g given, f *findings) {
		value, ok := convert(g.text)
		if !ok {
			f.refuse(g, want)
			return
		}
		*at = value
	}}
}

func anyText(string) bool { return true }

func subdomain(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

func labelOrNothing(s string) bool { return s == "" || len(validation.IsDNS1123Label(s)) == 0 }

// choice accepts one of a few words.
func choice[T ~string](at *T, allowed ...T) Reader {
	return Reader{kind: "string", read: func(g given, f *findings) {
		if !slices.Contains(allowed, T(g.text)) {
			f.refuse(g, oneOf(allowed))
			return
		}
		*at = T(g.text)
	}}
}

// oneOf renders "a, b or c".
func oneOf[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// logLevel takes an empty text for info, as charts render an unset value.
func logLevel(at *LogLevel) Reader {
	r := choice(at, LogDebug, LogInfo, LogError)
	read := r.read
	r.read = func(g given, f *findings) {
		g.text = cmp.Or(g.text, string(LogInfo))
		read(g, f)
	}
	return r
}

// list accepts a comma list without empty parts.
func list(at *[]string) Reader {
	return Reader{kind: "list", read: func(g given, f *findings) {
		parts := strings.Split(g.text, ",")
		for i, part := range parts {
			parts[i] = strings.TrimSpace(part)
		}
		if slices.Contains(parts, "") {
			f.refuse(g, "a comma list without empty parts, such as stdout")
			return
		}
		*at = parts
	}}
}
