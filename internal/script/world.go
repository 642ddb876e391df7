package script

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// World is what the lines of a script have said so far.
type World struct {
	commands   []Command
	types      []machine
	pools      []poolLine
	nodes      []cluster.NodeFacts // without their pods
	pods       []podLine           // pending and bound, in the order written, which is that of creation
	daemons    []podLine
	claims     cluster.VolumeObjects
	namespaces map[string]map[string]string
	gone       []string // nodes removed by `without`
	policy     solve.Policy
	spread     []corev1.TopologySpreadConstraint // of pods that have none of their own
}

// Command is one word of the language.
type Command struct {
	Name    string
	Usage   string
	Example string
	Do      func(w *World, l *Line) string // what to print; faults go to the Line
}

// New returns an empty world. More commands than those of Commands may be given, for what a package
// reads of a cluster beyond planning.
func New(more ...Command) *World {
	w := &World{commands: slices.Concat(Commands(), more)}
	w.clear()
	return w
}

func (w *World) clear() {
	*w = World{
		commands: w.commands, namespaces: map[string]map[string]string{"default": {}},
		claims: cluster.VolumeObjects{Claims: map[cluster.PodKey]*corev1.PersistentVolumeClaim{}, Volumes: map[string]*corev1.PersistentVolume{}},
	}
}

// Run performs the lines of a text and returns what they print. Empty lines and lines that start
// with # say nothing. The error names the line and how to write it.
func (w *World) Run(text string) (string, error) {
	var out strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		printed, err := w.perform(number, line)
		if err != nil {
			return out.String(), err
		}
		out.WriteString(printed)
	}
	return out.String(), nil
}

func (w *World) perform(number int, text string) (string, error) {
	l, err := parseLine(number, text)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(w.commands, func(c Command) bool { return c.Name == l.Command })
	if at < 0 {
		return "", fmt.Errorf("line %d: command %q is not known; use one of %s", number, l.Command, w.names())
	}
	printed := w.commands[at].Do(w, l)
	return printed, l.finish(w.commands[at].Usage)
}

func (w *World) names() string {
	names := make([]string, 0, len(w.commands))
	for _, c := range w.commands {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// Policy is what `policy` said last.
func (w *World) Policy() solve.Policy { return w.policy }

// readPolicy performs `policy`; each line replaces the one before.
func readPolicy(w *World, l *Line) string {
	w.policy = solve.Policy{
		IgnorePreferences: l.Flag("ignorepreferences"), BestEffortMinimums: l.Flag("besteffort"),
		ReservedFallback: l.Flag("fallback"), NoReserved: l.Flag("noreserved"), Greedy: l.Flag("greedy"),
		NodeFee: l.Price("fee"), Workers: l.Int("workers", 0),
	}
	w.spread = nil
	for _, text := range l.All("spread") {
		w.spread = append(w.spread, l.spread(text, "none"))
	}
	return ""
}

// readNamespace performs `namespace`.
func readNamespace(w *World, l *Line) string {
	w.namespaces[l.Name("name")] = l.Pairs("labels")
	return ""
}

// readReset performs `reset`.
func readReset(w *World, l *Line) string {
	before := *w
	w.clear()
	for _, what := range l.List("keep") {
		switch what {
		case "types":
			w.types = before.types
		case "pools":
			w.pools = before.pools
		default:
			l.Failf("keep=%s is not known; write keep=types,pools", what)
		}
	}
	return ""
}

// readWithout performs `without`: the nodes are gone and their pods are pending.
func readWithout(w *World, l *Line) string {
	for _, name := range l.Bare() {
		if !slices.ContainsFunc(w.nodes, func(n cluster.NodeFacts) bool { return nodeName(n) == name }) {
			l.Failf("there is no node %s; add it with node name=%s", name, name)
		}
		w.gone = append(w.gone, name)
	}
	return ""
}
