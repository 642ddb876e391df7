package config

import "strings"

// Setting describes one setting for people: --help, the reference page, the chart.
type Setting struct {
	Flag     string // without dashes
	Env      string // always the flag in capitals, with underscores
	Default  string // as one would type it
	Kind     string // bool, int, float, duration, string, list, gates or yaml
	Usage    string // one line, no full stop
	Helm     string // value of the chart; empty if the chart works it out
	Required bool
}

// setting is a row of the table: the description, and how a text gets into a Config.
type setting struct {
	flag, def, helm, usage string

	required bool
	as       reader
}

// reader turns the text of a setting into a field of a Config. It reports what it does not accept.
type reader struct {
	kind string
	read func(c *Config, g given, f *findings)
}

// Settings lists every setting in the order of the reference page: core, then AWS.
func Settings() []Setting {
	rows := allSettings()
	out := make([]Setting, 0, len(rows))
	for _, s := range rows {
		out = append(out, Setting{
			Flag: s.flag, Env: s.env(), Default: s.def, Kind: s.as.kind, Usage: s.usage, Helm: s.helm, Required: s.required,
		})
	}
	return out
}

// env is the name of the environment variable. All of them follow one rule, upstream's too.
func (s setting) env() string {
	return strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}
