package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Difference is something in which two plans for one cluster differ. An empty text stands for nothing at all.
type Difference struct {
	What   string `json:"what"` // one of the kinds below
	Object string `json:"object,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// What plans may differ in.
const (
	DiffersInCost      = "cost"
	DiffersInBound     = "lower bound"
	DiffersInEvictions = "evictions"
	DiffersInRemoved   = "removed"
	DiffersInLaunched  = "launched"
	DiffersInMoved     = "moved"
	DiffersInPlaced    = "placed"
	DiffersInUnplaced  = "unplaced"
	DiffersInKept      = "kept"
	DiffersInTime      = "out of time"
)

// Compare lists what differs between two plans for one cluster. Wording does not count, nor do the numbers of launches:
// reasons are compared by their codes.
func Compare(before, after *Changes) []Difference {
	var out []Difference
	value := func(what, a, b string) {
		if a != b {
			out = append(out, Difference{What: what, Before: a, After: b})
		}
	}
	amount := func(what string, a, b float64) {
		if math.Abs(a-b) > leastShown {
			value(what, dollarsHourly(a), dollarsHourly(b))
		}
	}
	amount(DiffersInCost, before.After.Hourly, after.After.Hourly)
	amount(DiffersInBound, before.Bound, after.Bound)
	value(DiffersInEvictions, strconv.Itoa(before.Evictions), strconv.Itoa(after.Evictions))
	value(DiffersInTime, strconv.FormatBool(before.Partial), strconv.FormatBool(after.Partial))
	for _, part := range []struct {
		what string
		of   func(*Changes) map[string]string
	}{
		{DiffersInRemoved, (*Changes).removedNodes},
		{DiffersInLaunched, (*Changes).launchedNodes},
		{DiffersInMoved, func(c *Changes) map[string]string { return c.places(c.Moves) }},
		{DiffersInPlaced, func(c *Changes) map[string]string { return c.places(c.placements()) }},
		{DiffersInUnplaced, (*Changes).unplacedPods},
		{DiffersInKept, (*Changes).keptNodes},
	} {
		a, b := part.of(before), part.of(after)
		objects := slices.Concat(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
		slices.Sort(objects)
		for _, object := range slices.Compact(objects) {
			if a[object] != b[object] {
				out = append(out, Difference{What: part.what, Object: object, Before: a[object], After: b[object]})
			}
		}
	}
	return out
}

func dollarsHourly(v float64) string { return money(v) + " an hour" }

// removedNodes says of each node that is removed why and when.
func (c *Changes) removedNodes() map[string]string {
	out := map[string]string{}
	for i := range c.Remove {
		r, when := &c.Remove[i], "later"
		if r.Now {
			when = "now"
		}
		out[r.Node] = r.Reason + ", " + when
	}
	return out
}

// launchedNodes counts the nodes that are launched by what they are.
func (c *Changes) launchedNodes() map[string]string {
	counts := map[string]int{}
	for i := range c.Launch {
		counts[c.Launch[i].kind()]++
	}
	out := map[string]string{}
	for kind, n := range counts {
		out[kind] = count(n, "node", "nodes")
	}
	return out
}

func (l *Launch) kind() string {
	return fmt.Sprintf("%s %s in %s of NodePool %s", l.Market, l.Type, l.Zone, l.Pool)
}

// placements are the pending pods with the nodes that they are placed on.
func (c *Changes) placements() []PodMove {
	moved := map[string]bool{}
	for i := range c.Moves {
		moved[c.Moves[i].Pod] = true
	}
	out := slices.Clone(c.Binds)
	for i := range c.Launch {
		for _, pod := range c.Launch[i].Pods {
			if !moved[pod] {
				out = append(out, PodMove{Pod: pod, To: launchName(i + 1)})
			}
		}
	}
	return out
}

// places says of each pod where it is placed, and of a launch what it is.
func (c *Changes) places(list []PodMove) map[string]string {
	out := make(map[string]string, len(list))
	for _, m := range list {
		to := m.To
		if number, is := strings.CutPrefix(to, launchPrefix); is {
			if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= len(c.Launch) {
				to = "a new " + c.Launch[n-1].kind()
			}
		}
		out[m.Pod] = to
	}
	return out
}

func (c *Changes) unplacedPods() map[string]string {
	out := map[string]string{}
	for i := range c.Unplaced {
		out[c.Unplaced[i].Pod] = cmp.Or(codesOf(c.Unplaced[i].Why), "no reason")
	}
	return out
}

func (c *Changes) keptNodes() map[string]string {
	out := map[string]string{}
	for i := range c.Kept {
		out[c.Kept[i].Node] = string(c.Kept[i].Why.Code)
	}
	return out
}

// codesOf joins the codes of findings.
func codesOf(list []Finding) string {
	codes := make([]string, 0, len(list))
	for i := range list {
		if code := string(list[i].Code); code != "" && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return strings.Join(codes, "+")
}
