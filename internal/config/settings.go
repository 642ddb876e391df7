package config

import "strings"

// Setting is a row of the table: what people read of it in --help, on the reference page and in the chart, and how its
// text is read.
type Setting struct {
	Flag     string // without dashes
	Default  string // as one would type it
	Helm     string // value of the chart; empty if the chart works it out
	Usage    string // one line, no full stop
	Required bool
	As       Reader
	Odd      func() string // once all is read: what is allowed and probably not meant; empty or nil: nothing
}

// Reader puts the text of a setting where it belongs. It reports what it does not accept.
type Reader struct {
	kind string
	read func(g given, f *findings)
}

// Section is the settings that a cloud adds to those of the core. Each call makes a table whose rows read into values of
// its own, and returns with it what hands these out once they are read: they become Config.Cloud.
type Section func() (table []Setting, values func() any)

// Settings lists every setting in the order of the reference page: core, then cloud. Without a section there are those of
// the core.
func Settings(cloud Section) []Setting {
	table, _ := tableFor(&Config{}, cloud)
	return table
}

// tableFor makes the table that reads into a Config.
func tableFor(c *Config, cloud Section) (table []Setting, values func() any) {
	table = coreSettings(c)
	if cloud == nil {
		return table, func() any { return nil }
	}
	more, values := cloud()
	return append(table, more...), values
}

// Env is the name of the environment variable. All of them follow one rule, upstream's too.
func (s Setting) Env() string {
	return strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

// Kind is bool, int, float, duration, string, list, gates or yaml.
func (s Setting) Kind() string { return s.As.kind }
