package config

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/near"
)

// Gate is one switch: its name, and where it is.
type Gate struct {
	Name string
	On   *bool
}

// coreGates lists the gates in the order of the default text (V15-01).
func coreGates(g *Gates) []Gate {
	return []Gate{
		{"NodeRepair", &g.NodeRepair},
		{"ReservedCapacity", &g.ReservedCapacity},
		{"SpotToSpotConsolidation", &g.SpotToSpotConsolidation},
		{"NodeOverlay", &g.NodeOverlay},
		{"StaticCapacity", &g.StaticCapacity},
		{"CapacityBuffer", &g.CapacityBuffer},
		{"TerminateFirstDrift", &g.TerminateFirstDrift},
		{"TerminateFirstRepair", &g.TerminateFirstRepair},
		{"PodDeletionCostManagement", &g.PodDeletionCostManagement},
	}
}

// Switches accepts a comma list of name=true and name=false. Gates that are not named keep their
// default. Unknown names are warnings: gates come and go, and an old list must not stop a start.
func Switches(known ...Gate) Reader {
	return Reader{kind: "gates", read: func(g given, f *findings) {
		defaults := g
		defaults.text = g.Default
		readGates(known, defaults, f)
		if g.from != fromDefault {
			readGates(known, g, f)
		}
	}}
}

// readGates sets the gates that a list names. Spaces around names and values and empty parts are
// fine; of a gate named twice the last one counts.
func readGates(known []Gate, g given, f *findings) {
	var seen []string
	for part := range strings.SplitSeq(g.text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" {
			f.refusePart(g, strings.TrimSpace(part), "a comma list of name=true and name=false")
			continue
		}
		i := slices.IndexFunc(known, func(k Gate) bool { return k.Name == name })
		if i < 0 {
			f.warn(g, "unknown gate "+quote(name)+" is ignored"+near.Hint(name, names(known)))
			continue
		}
		on, ok := parseBool(value)
		if !ok {
			f.refusePart(g, strings.TrimSpace(part), name+"=true or "+name+"=false")
			continue
		}
		if slices.Contains(seen, name) {
			f.warn(g, "gate "+name+" is named twice; the last one counts")
		}
		seen = append(seen, name)
		*known[i].On = on
	}
}

// names are the gates there are.
func names(known []Gate) []string {
	var list []string
	for _, k := range known {
		list = append(list, k.Name)
	}
	return list
}
