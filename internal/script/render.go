package script

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// rendering is how a result is printed: which columns a new node has, whether pods are counted by
// the line they come from instead of named, and how much of a reason is shown.
type rendering struct {
	view    *cluster.Snapshot
	pending []cluster.Pod
	groups  map[cluster.PodKey]string // name= of the line a pod comes from
	columns []string
	count   bool
	codes   bool
}

func (w *World) rendering(l *Line) *rendering {
	r := &rendering{groups: map[cluster.PodKey]string{}, columns: l.List("show"), count: l.Flag("count")}
	r.view, r.pending = w.Snapshot()
	if r.columns == nil {
		r.columns = []string{"zone", "captype", "types", "cost", "pods"}
	}
	switch why := l.Text("why"); why {
	case "", "all":
	case "codes":
		r.codes = true
	default:
		l.Failf("why=%s is not known; write why=all or why=codes", why)
	}
	for i := range w.pods {
		p := &w.pods[i]
		r.groups[cluster.PodKey{Namespace: p.object.Namespace, Name: p.object.Name}] = p.group
	}
	return r
}

// plan prints binds by node, then new nodes, then pods without a place.
func (r *rendering) plan(p solve.Plan) string {
	var b strings.Builder
	b.WriteString(r.moves(p.Bind, p.Create, ""))
	r.unplaced(&b, p.Unplaced)
	if p.Partial {
		b.WriteString("partial\n")
	}
	return b.String()
}

func (r *rendering) moves(binds []solve.Bind, created []solve.NewNode, indent string) string {
	var b strings.Builder
	byNode := map[string][]cluster.PodKey{}
	for _, bind := range binds {
		byNode[bind.Node] = append(byNode[bind.Node], bind.Pod)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		b.WriteString(indent + "bind " + r.pods(byNode[node]) + " " + node + "\n")
	}
	lines := make([]string, 0, len(created))
	for i := range created {
		lines = append(lines, r.create(&created[i]))
	}
	slices.SortFunc(lines, compareNatural)
	for i := 0; i < len(lines); {
		same := i + 1
		for r.count && same < len(lines) && lines[same] == lines[i] {
			same++
		}
		b.WriteString(indent + "create ")
		if same > i+1 {
			b.WriteString(strconv.Itoa(same-i) + "x ")
		}
		b.WriteString(lines[i] + "\n")
		i = same
	}
	return b.String()
}

// create prints one new node. Zones and capacity types are those in which the node can be launched:
// what its requirements leave of what its types offer. All zones there are show as nothing.
func (r *rendering) create(n *solve.NewNode) string {
	zones, captypes := r.launchable(n)
	text := []string{n.Pool}
	for _, column := range r.columns {
		value := ""
		switch column {
		case "none":
		case "zone":
			if all := r.zones(); !slices.Equal(all, zones) {
				value = orElse(strings.Join(zones, ","), "none")
			}
		case "captype":
			value = orElse(strings.Join(captypes, ","), "none")
		case "types":
			value = shortenList(n.Types)
		case "cost":
			value = money(n.Offer.Price)
		case "pods":
			value = r.pods(n.Pods)
		case "requests":
			value = r.view.Resources.Format(n.Requests)
		case "offer":
			value = strings.Trim(n.Offer.Type+"/"+n.Offer.Zone+"/"+n.Offer.CapacityType+"/"+n.Offer.Reservation, "/")
		case "relaxed":
			value = strconv.FormatBool(n.Relaxed)
		case "overlaid":
			value = strconv.FormatBool(n.Overlaid)
		case "capacity-overlaid":
			value = strconv.FormatBool(n.CapacityOverlaid)
		default:
			value = "undefined"
			if need, defined := n.Needs[Key(column)]; defined {
				value = strings.Join(need.Values, ",")
				if need.Not || need.Empty() || need.MinValues > 0 {
					value = strconv.Quote(need.String())
				}
			}
		}
		if value != "" {
			text = append(text, column+"="+value)
		}
	}
	return strings.Join(text, " ")
}

// launchable returns where and as what the node can be launched.
func (r *rendering) launchable(n *solve.NewNode) (zones, captypes []string) {
	for i := range r.view.Pools {
		if r.view.Pools[i].Name != n.Pool {
			continue
		}
		for j := range r.view.Pools[i].Types {
			t := &r.view.Pools[i].Types[j]
			if !slices.Contains(n.Types, t.Name) {
				continue
			}
			for k := range t.Offerings {
				if o := &t.Offerings[k]; o.Launchable() && open(n, o) {
					zones, captypes = append(zones, o.Zone), append(captypes, o.CapacityType)
				}
			}
		}
	}
	return sorted(zones), sorted(captypes)
}

// open reports whether the node's requirements allow the offering.
func open(n *solve.NewNode, o *catalog.Offering) bool {
	for key, value := range o.Labels {
		if !n.Needs.Allows(key, value) {
			return false
		}
	}
	return n.Needs.Allows(corev1.LabelTopologyZone, o.Zone) && n.Needs.Allows(karpv1.LabelCapacityType, o.CapacityType)
}

func (r *rendering) zones() []string {
	var zones []string
	for i := range r.view.Pools {
		for j := range r.view.Pools[i].Types {
			for _, o := range r.view.Pools[i].Types[j].Offerings {
				zones = append(zones, o.Zone)
			}
		}
	}
	return sorted(zones)
}

func (r *rendering) unplaced(b *strings.Builder, unplaced []solve.Unplaced) {
	why := map[string][]cluster.PodKey{}
	for _, u := range unplaced {
		texts := make([]string, 0, len(u.Why))
		for i := range u.Why {
			texts = append(texts, r.why(&u.Why[i]))
		}
		if r.codes {
			texts = sorted(texts)
		}
		text := strings.Join(texts, "; ")
		if u.Deferred {
			text += " deferred"
		}
		why[text] = append(why[text], u.Pod)
	}
	lines := make([]string, 0, len(why))
	for text, pods := range why {
		lines = append(lines, "unplaced "+r.pods(pods)+": "+text+"\n")
	}
	slices.SortFunc(lines, compareNatural)
	b.WriteString(strings.Join(lines, ""))
}

// why prints a reason: its code, what it is about, what was wanted and what was there.
func (r *rendering) why(w *reason.Reason) string {
	if r.codes {
		return string(w.Code)
	}
	text := []string{string(w.Code)}
	for _, part := range []struct{ name, value string }{{"", w.Subject}, {"want=", w.Want}, {"have=", w.Have}} {
		if part.value != "" {
			text = append(text, part.name+part.value)
		}
	}
	if len(w.Because) > 0 {
		codes := make([]string, 0, len(w.Because))
		for i := range w.Because {
			codes = append(codes, string(w.Because[i].Code))
		}
		text = append(text, "because="+strings.Join(codes, ","))
	}
	return strings.Join(text, " ")
}

func (r *rendering) consolidation(c solve.Consolidation) string {
	var b strings.Builder
	for i := range c.Moves {
		m := &c.Moves[i]
		b.WriteString("remove " + shortenList(slices.Sorted(slices.Values(m.Remove))) + " saves=" + money(m.Saves) + " moved=" + strconv.Itoa(m.Moved) + "\n")
		b.WriteString(r.moves(m.Bind, m.Create, "  "))
	}
	for i := range c.Kept {
		b.WriteString("keep " + c.Kept[i].Node + ": " + r.why(&c.Kept[i].Why) + "\n")
	}
	if c.Partial {
		b.WriteString("partial\n")
	}
	return b.String()
}

// pods prints names, consecutive numbers folded: "web-1..3,db"; or counts by line: "db,web*3".
func (r *rendering) pods(keys []cluster.PodKey) string {
	if r.count {
		counts := map[string]int{}
		for _, key := range keys {
			counts[r.groups[key]]++
		}
		texts := make([]string, 0, len(counts))
		for _, group := range slices.Sorted(maps.Keys(counts)) {
			if n := counts[group]; n > 1 {
				group += "*" + strconv.Itoa(n)
			}
			texts = append(texts, group)
		}
		return strings.Join(texts, ",")
	}
	names := make([]string, 0, len(keys))
	for _, key := range keys {
		names = append(names, podName(key))
	}
	slices.SortFunc(names, compareNatural)
	return foldNames(names)
}

// podName leaves the default namespace out.
func podName(key cluster.PodKey) string {
	return strings.TrimPrefix(key.String(), "default/")
}

// foldNames joins sorted names, runs of numbers as "web-1..3".
func foldNames(names []string) string {
	var texts []string
	for i := 0; i < len(names); {
		stem, first := number(names[i])
		last := i
		for last+1 < len(names) && first >= 0 {
			nextStem, next := number(names[last+1])
			if nextStem != stem || next != first+last+1-i {
				break
			}
			last++
		}
		text := names[i]
		if last > i {
			text += ".." + strconv.Itoa(first+last-i)
		}
		texts = append(texts, text)
		i = last + 1
	}
	return strings.Join(texts, ",")
}

// number cuts "web-12" into "web-" and 12; -1 without a number.
func number(name string) (stem string, n int) {
	at := strings.LastIndexByte(name, '-') + 1
	n, err := strconv.Atoi(name[at:])
	if at == 0 || err != nil {
		return name, -1
	}
	return name[:at], n
}

// compareNatural orders digits by their value, so that web-2 comes before web-10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			if c := cmp.Or(cmp.Compare(na, nb), strings.Compare(a[:na], b[:nb])); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits the text starts with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// shortenList cuts a list to three names and the number of others.
func shortenList(names []string) string {
	const shown = 3
	if over := len(names) - shown; over > 0 {
		return strings.Join(names[:shown], ",") + ",+" + strconv.Itoa(over)
	}
	return strings.Join(names, ",")
}

// money prints up to four decimals.
func money(amount float64) string {
	text := strconv.FormatFloat(amount, 'f', 4, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func sorted(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}
