package explain

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

func number(n int) string { return strconv.Itoa(n) }

// amountText writes an amount of a lane, such as "cpu:4"; lanes past the resources are CSI drivers.
func amountText(m *model.Model, lane int, n int64) string {
	return laneName(m, lane) + ":" + quantityText(m, lane, n)
}

func laneName(m *model.Model, lane int) string {
	if base := m.View.Resources.Len(); lane >= base {
		return m.Drivers[lane-base]
	}
	return string(m.View.Resources.Name(lane))
}

// quantityText writes the number alone, in the unit of the resource.
func quantityText(m *model.Model, lane int, n int64) string {
	if n == 0 || lane >= m.View.Resources.Len() {
		return strconv.FormatInt(n, 10)
	}
	lanes := make([]int64, lane+1)
	lanes[lane] = n
	text := m.View.Resources.Format(resources.Of(lanes...))
	return strings.TrimPrefix(text, laneName(m, lane)+":")
}

// reqText writes a requirement, without minValues, which is not about values.
func reqText(r reqs.Req) string { return r.WithMinValues(0).String() }

// valueText writes the value of a key in a row, or that the key does not exist.
func valueText(row reqs.Row, k reqs.KeyID) string {
	if !row.Defined(k) {
		return reqText(reqs.Req{})
	}
	return reqText(row.Req(k))
}

// SetText writes requirements, ordered by key.
func SetText(s reqs.Set) string {
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

// poolText writes the requirements of a pool, without the one for its name: pools that differ only in their name are
// explained together.
func poolText(p *cluster.Pool) string {
	own := p.Requirements.Clone()
	delete(own, karpv1.LabelNodePool)
	if len(own) == 0 {
		return "none"
	}
	return SetText(own)
}

// rowText writes what a row requires beyond its pool: of offerings, or of types. If that is nothing, it writes what
// the pool requires.
func rowText(m *model.Model, pl *model.Pool, row reqs.Row, offerings bool) string {
	cat := m.Catalogues[pl.Catalogue]
	beyond, own := reqs.Set{}, reqs.Set{}
	for k := range m.Table.Len() {
		id := reqs.KeyID(k)
		if !row.Defined(id) || cat.Keys[k].ByOffering != offerings || !offerings && !cat.Keys[k].ByType {
			continue
		}
		r := row.Req(id).WithMinValues(0)
		if !pl.Row.Defined(id) || !r.Equal(pl.Row.Req(id).WithMinValues(0)) {
			beyond[m.Table.KeyName(id)] = r
		}
		own[m.Table.KeyName(id)] = r
	}
	switch {
	case len(beyond) > 0:
		return SetText(beyond)
	case len(own) > 0:
		return SetText(own)
	case offerings:
		return "any zone and capacity type"
	}
	return "its requirements"
}

// taintText writes the taints that are not tolerated.
func taintText(t *model.Tolerations, taints []corev1.Taint) string {
	var texts []string
	for i := range taints {
		if taint, found := model.Untolerated(t.List, t.Soft, taints[i:i+1]); found {
			texts = append(texts, taint.ToString())
		}
	}
	return joinTexts(texts)
}

func portText(p cluster.HostPort) string {
	ip := p.IP
	if ip == "" {
		ip = "0.0.0.0"
	}
	return strconv.Itoa(int(p.Port)) + "/" + p.Protocol + "@" + ip
}

// reservationNames writes ids of reservations, in order.
func reservationNames(m *model.Model, ids []int) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, m.Reservations[id].ID)
	}
	slices.Sort(texts)
	return joinTexts(texts)
}

// joinTexts joins texts and counts those past the bound.
func joinTexts(texts []string) string {
	if over := len(texts) - maxListed; over > 0 {
		return strings.Join(texts[:maxListed], ",") + " and " + number(over) + " more"
	}
	return strings.Join(texts, ",")
}

// valueList writes the values of a key that are in a set.
func valueList(m *model.Model, k reqs.KeyID, values bitset.Set) string {
	if values.Empty() {
		return "none"
	}
	return joinTexts(valueNames(m, k, values))
}

// valueNames are the values of a key that are in a set, sorted.
func valueNames(m *model.Model, k reqs.KeyID, values bitset.Set) []string {
	var names []string
	for v := values.Next(0); v >= 0; v = values.Next(v + 1) {
		names = append(names, m.Table.ValueName(k, reqs.ValueID(v)))
	}
	slices.Sort(names)
	return names
}
