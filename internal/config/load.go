package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Loader holds the flags of one command until they are parsed.
type Loader struct {
	cloud Section
	flags map[string]*rawFlag
}

// Bind defines a flag for every setting of the core and of a cloud; nil: there is none. The flags take any text: Load
// judges it together with the environment, so that one start shows every fault.
func Bind(fs *pflag.FlagSet, cloud Section) *Loader {
	l := &Loader{cloud: cloud, flags: map[string]*rawFlag{}}
	for _, s := range Settings(cloud) {
		raw := &rawFlag{kind: s.Kind(), text: s.Default}
		flag := fs.VarPF(raw, s.Flag, "", s.Usage+" [$"+s.Env()+"]")
		if s.Kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
		l.flags[s.Flag] = raw
	}
	return l
}

// Load builds the Config from the flags, which must be parsed by now, the environment and the
// defaults. Warnings are for the log; they come with a Config and with an error. The error is an
// *Error with all faults. lookupEnv is os.LookupEnv, or a map in tests.
func (l *Loader) Load(lookupEnv func(string) (string, bool)) (Config, []string, error) {
	var c Config
	var f findings
	table, ofCloud := tableFor(&c, l.cloud)
	found := make(map[string]given, len(table))
	for _, s := range table {
		g := l.given(s, lookupEnv)
		found[s.Flag] = g
		s.As.read(g, &f)
	}
	c.Cloud = ofCloud()
	compare(c, found, &f)
	if len(f.faults) > 0 {
		return Config{}, f.warnings, &Error{Faults: f.faults}
	}
	adviseAgainst(c, found, &f)
	for _, s := range table {
		if s.Odd == nil {
			continue
		}
		if why := s.Odd(); why != "" {
			f.warn(found[s.Flag], why)
		}
	}
	return c, f.warnings, nil
}

// given finds the text of a setting. An empty variable is no text: charts and manifests render unset
// values so, and no setting needs the difference.
func (l *Loader) given(s Setting, lookupEnv func(string) (string, bool)) given {
	if flag := l.flags[s.Flag]; flag.given {
		return given{Setting: s, text: flag.text, from: fromFlag}
	}
	if value, ok := lookupEnv(s.Env()); ok && value != "" {
		return given{Setting: s, text: value, from: fromEnv}
	}
	return given{Setting: s, text: s.Default, from: fromDefault}
}

// rawFlag keeps what the command line says.
type rawFlag struct {
	kind, text string
	given      bool
}

// Set keeps the text; if a flag is repeated, the last one counts.
func (r *rawFlag) Set(s string) error {
	r.text, r.given = s, true
	return nil
}

// String is the text, which starts as the default: --help prints it.
func (r *rawFlag) String() string { return r.text }

// Type is shown by --help behind the name of the flag.
func (r *rawFlag) Type() string { return r.kind }

// Where the text of a setting came from, in words.
const (
	fromFlag    = "flag"
	fromEnv     = "environment"
	fromDefault = "default"
)

// given is the text of one setting.
type given struct {
	Setting

	text, from string
}

// Fault is one text that cannot be used.
type Fault struct {
	Flag  string // without dashes
	Env   string
	From  string // flag, environment or default
	Value string // the text, or the part of it that is wrong
	Want  string // what is allowed, in words
}

// String renders the fault as one line.
func (f Fault) String() string {
	have := "not given"
	if f.Value != "" || f.From != fromDefault {
		have = quote(f.Value) + " (" + f.From + ") is not allowed"
	}
	return "--" + f.Flag + ", " + f.Env + ": " + have + "; want " + f.Want
}

// Error is every fault of the settings: of single ones in the order of Settings, then of those that
// do not go together.
type Error struct {
	Faults []Fault
}

// Error renders one fault per line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("invalid settings:")
	for _, fault := range e.Faults {
		b.WriteString("\n  " + fault.String())
	}
	return b.String()
}

// findings collects what is wrong and what is odd.
type findings struct {
	faults   []Fault
	warnings []string
}

func (f *findings) refuse(g given, want string) { f.refusePart(g, g.text, want) }

// refusePart points at the part of a text that is wrong.
func (f *findings) refusePart(g given, part, want string) {
	f.faults = append(f.faults, Fault{Flag: g.Flag, Env: g.Env(), From: g.from, Value: part, Want: want})
}

func (f *findings) warn(g given, message string) {
	f.warnings = append(f.warnings, "--"+g.Flag+", "+g.Env()+": "+message)
}

// refused says whether a setting has a fault already.
func (f *findings) refused(flag string) bool {
	return slices.ContainsFunc(f.faults, func(fault Fault) bool { return fault.Flag == flag })
}

// quote renders a text that may be long or hold line breaks, such as a scheduler configuration.
func quote(s string) string {
	const longest = 120
	if runes := []rune(s); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "..."
	}
	return strconv.Quote(s)
}
