package solve

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func number(n int) string { return strconv.Itoa(n) }

// amount writes so much of a lane, such as "cpu:4"; lanes past the resources are CSI drivers.
func (m *model) amount(lane int, n int64) string {
	return m.laneName(lane) + ":" + m.quantity(lane, n)
}

func (m *model) laneName(lane int) string {
	if base := m.view.Resources.Len(); lane >= base {
		return m.drivers[lane-base]
	}
	return string(m.view.Resources.Name(lane))
}

// quantity writes the number alone, in the unit of the resource.
func (m *model) quantity(lane int, n int64) string {
	if n == 0 || lane >= m.view.Resources.Len() {
		return strconv.FormatInt(n, 10)
	}
	lanes := make([]int64, lane+1)
	lanes[lane] = n
	text := m.view.Resources.Format(resources.Of(lanes...))
	return strings.TrimPrefix(text, m.laneName(lane)+":")
}

// reqText writes a requirement, without minValues: that is not a matter of what values there are.
func reqText(r reqs.Req) string { return r.WithMinValues(0).String() }

// valueText writes what a row has of a key; a key it does not define is not there.
func valueText(row reqs.Row, k reqs.KeyID) string {
	if !row.Defined(k) {
		return reqText(reqs.Req{})
	}
	return reqText(row.Req(k))
}

// setText writes requirements, ordered by key.
func setText(s reqs.Set) string {
	keys := s.Keys()
	texts := make([]string, 0, len(keys))
	for _, key := range keys[:min(len(keys), maxListed)] {
		texts = append(texts, key+" "+reqText(s[key]))
	}
	if over := len(keys) - maxListed; over > 0 {
		texts = append(texts, "and "+number(over)+" more")
	}
	return strings.Join(texts, "; ")
}

// poolText writes the requirements of a pool, without the one for its name: pools that differ in
// nothing else are explained together.
func poolText(p *cluster.Pool) string {
	own := p.Requirements.Clone()
	delete(own, karpv1.LabelNodePool)
	if len(own) == 0 {
		return "none"
	}
	return setText(own)
}

// rowText writes what a row demands beyond its pool: of offerings, or of types. If that is nothing,
// what the pool demands itself.
func (m *model) rowText(pl *pool, row reqs.Row, offerings bool) string {
	cat := m.catalogues[pl.catalogue]
	beyond, own := reqs.Set{}, reqs.Set{}
	for k := range m.table.Len() {
		id := reqs.KeyID(k)
		if !row.Defined(id) || cat.keys[k].columns != offerings || !offerings && !cat.keys[k].typed {
			continue
		}
		r := row.Req(id).WithMinValues(0)
		if !pl.row.Defined(id) || !r.Equal(pl.row.Req(id).WithMinValues(0)) {
			beyond[m.table.KeyName(id)] = r
		}
		own[m.table.KeyName(id)] = r
	}
	switch {
	case len(beyond) > 0:
		return setText(beyond)
	case len(own) > 0:
		return setText(own)
	case offerings:
		return "any zone and capacity type"
	}
	return "its requirements"
}

// taintText writes the taints that are not tolerated.
func taintText(t *tolerations, taints []corev1.Taint) string {
	var texts []string
	for i := range taints {
		if taint, found := untolerated(t.list, t.soft, taints[i:i+1]); found {
			texts = append(texts, taint.ToString())
		}
	}
	return joined(texts)
}

func portText(p cluster.HostPort) string {
	ip := p.IP
	if ip == "" {
		ip = "0.0.0.0"
	}
	return strconv.Itoa(int(p.Port)) + "/" + p.Protocol + "@" + ip
}

// reservations writes ids of reservations, in order.
func (m *model) reservations(ids []int) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, m.reserves[id].id)
	}
	slices.Sort(texts)
	return joined(texts)
}

// joined joins texts and counts those past the bound.
func joined(texts []string) string {
	if over := len(texts) - maxListed; over > 0 {
		return strings.Join(texts[:maxListed], ",") + " and " + number(over) + " more"
	}
	return strings.Join(texts, ",")
}

// names writes the values of a key that are in a set.
func (m *model) names(k reqs.KeyID, values set) string {
	if values.empty() {
		return "none"
	}
	return joined(m.valueNames(k, values))
}

// valueNames are the values of a key that are in a set, sorted.
func (m *model) valueNames(k reqs.KeyID, values set) []string {
	var names []string
	for v := values.next(0); v >= 0; v = values.next(v + 1) {
		names = append(names, m.table.ValueName(k, reqs.ValueID(v)))
	}
	slices.Sort(names)
	return names
}
