package config

import (
	"cmp"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultCPUMillis stands in for a CPU request that says nothing: one core.
const defaultCPUMillis = 1000

// boolean accepts exactly true and false.
func boolean(at func(*Config) *bool) reader {
	return reader{kind: "bool", read: func(c *Config, g given, f *findings) {
		value, ok := parseBool(g.text)
		if !ok {
			f.refuse(g, "true or false")
			return
		}
		*at(c) = value
	}}
}

func parseBool(s string) (value, ok bool) {
	return s == "true", s == "true" || s == "false"
}

// integer accepts the whole numbers that valid says.
func integer[T int | int64](at func(*Config) *T, valid func(T) bool, want string) reader {
	return reader{kind: "int", read: func(c *Config, g given, f *findings) {
		value, err := strconv.ParseInt(g.text, 10, 64)
		if err != nil || int64(T(value)) != value || !valid(T(value)) {
			f.refuse(g, want)
			return
		}
		*at(c) = T(value)
	}}
}

func anyNumber[T int | int64](T) bool { return true }

func port(n int) bool { return n >= 0 && n <= math.MaxUint16 }

func zeroOrMore(n int) bool { return n >= 0 }

func oneOrMore(n int) bool { return n >= 1 }

// notZero is for rates: for 0 the client would silently take its own, very low rate.
func notZero(n int) bool { return n != 0 }

// millicores replaces a request that says nothing.
func millicores(at func(*Config) *int) reader {
	r := integer(at, anyNumber, "a whole number of millicores")
	read := r.read
	r.read = func(c *Config, g given, f *findings) {
		if read(c, g, f); *at(c) <= 0 {
			*at(c) = defaultCPUMillis
		}
	}
	return r
}

// fraction accepts finite numbers of 0 or more.
func fraction(at func(*Config) *float64) reader {
	return reader{kind: "float", read: func(c *Config, g given, f *findings) {
		value, err := strconv.ParseFloat(g.text, 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			f.refuse(g, "a number of 0 or more, such as 0.075")
			return
		}
		*at(c) = value
	}}
}

// shares accepts names with a share each, such as m5.large=0.1,c5.large/eu-west-1a=0.2.
func shares(at func(*Config) *map[string]float64) reader {
	return reader{kind: "string", read: func(c *Config, g given, f *findings) {
		*at(c) = nil
		for part := range strings.SplitSeq(g.text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			name, number, _ := strings.Cut(part, "=")
			value, err := strconv.ParseFloat(number, 64)
			instanceType, zone, zonal := strings.Cut(name, "/")
			if _, twice := (*at(c))[name]; twice || err != nil || !(value >= 0 && value <= 1) || instanceType == "" || zonal && zone == "" {
				f.refusePart(g, part, "an instance type or type/zone, each once, and a share from 0 to 1, such as m5.large=0.1")
				continue
			}
			if *at(c) == nil {
				*at(c) = map[string]float64{}
			}
			(*at(c))[name] = value
		}
	}}
}

// period accepts durations in Go's syntax, not shorter than shortest.
func period(at func(*Config) *time.Duration, shortest time.Duration, want string) reader {
	return reader{kind: "duration", read: func(c *Config, g given, f *findings) {
		value, err := time.ParseDuration(g.text)
		if err != nil || value < shortest {
			f.refuse(g, want)
			return
		}
		*at(c) = value
	}}
}

// text accepts what valid says.
func text(at func(*Config) *string, valid func(string) bool, want string) reader {
	return reader{kind: "string", read: func(c *Config, g given, f *findings) {
		if !valid(g.text) {
			f.refuse(g, want)
			return
		}
		*at(c) = g.text
	}}
}

func anyText(string) bool { return true }

func notBlank(s string) bool { return strings.TrimSpace(s) != "" }

func subdomain(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

func labelOrNothing(s string) bool { return s == "" || len(validation.IsDNS1123Label(s)) == 0 }

// absoluteURL requests a host too: host:port alone would parse, as a URL of scheme "host".
func absoluteURL(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && u.Hostname() != ""
}

// choice accepts one of a few words.
func choice[T ~string](at func(*Config) *T, allowed ...T) reader {
	return reader{kind: "string", read: func(c *Config, g given, f *findings) {
		if !slices.Contains(allowed, T(g.text)) {
			f.refuse(g, oneOf(allowed))
			return
		}
		*at(c) = T(g.text)
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
func logLevel() reader {
	r := choice(func(c *Config) *LogLevel { return &c.Log.Level }, LogDebug, LogInfo, LogError)
	read := r.read
	r.read = func(c *Config, g given, f *findings) {
		g.text = cmp.Or(g.text, string(LogInfo))
		read(c, g, f)
	}
	return r
}

// list accepts a comma list without empty parts.
func list(at func(*Config) *[]string) reader {
	return reader{kind: "list", read: func(c *Config, g given, f *findings) {
		parts := strings.Split(g.text, ",")
		for i, part := range parts {
			parts[i] = strings.TrimSpace(part)
		}
		if slices.Contains(parts, "") {
			f.refuse(g, "a comma list without empty parts, such as stdout")
			return
		}
		*at(c) = parts
	}}
}

// queue accepts the name of an SQS queue, or its ARN or URL, of which it keeps the name.
func queue() reader {
	return reader{kind: "string", read: func(c *Config, g given, f *findings) {
		name, ok := queueName(g.text)
		if !ok {
			f.refuse(g, "the name of an SQS queue: up to 80 letters, digits, '-' and '_'")
			return
		}
		c.AWS.InterruptionQueue = name
	}}
}

// queueName cuts the name out of an ARN or a URL. Empty stays empty: no queue.
func queueName(s string) (string, bool) {
	name := s
	switch {
	case s == "":
		return "", true
	case strings.HasPrefix(s, "arn:"):
		parts := strings.Split(s, ":") // arn:partition:sqs:region:account:name
		if len(parts) != 6 || parts[2] != "sqs" {
			return "", false
		}
		name = parts[5]
	case strings.Contains(s, "://"):
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			return "", false
		}
		name = path.Base(u.Path)
	}
	if len(name) > 80 {
		return "", false
	}
	stem := strings.TrimSuffix(name, ".fifo")
	foreign := strings.ContainsFunc(stem, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	return name, stem != "" && !foreign
}
