package cluster

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// keyText writes the canonical text of a shape. Texts of users are quoted, so that nothing in them
// can read as something else and the key is always legal in JSON.
type keyText struct{ buf []byte }

// shapeKey says everything a shape means, independent of the order of reading and of lanes.
func shapeKey(s *Shape, table resources.Table) string {
	k := &keyText{buf: make([]byte, 0, 256)}
	k.quoted(s.Namespace)
	k.section("labels")
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		k.pair(key, s.Labels[key])
	}
	k.requests(s.Requests, table)
	k.sets("required", s.Required)
	for _, p := range s.Preferred {
		k.section("preferred")
		k.number(int64(p.Weight))
		k.set(p.Needs)
	}
	for _, t := range s.Tolerations {
		k.section("tolerates")
		k.pair(t.Key, t.Value)
		k.pair(string(t.Operator), string(t.Effect))
	}
	for _, c := range s.Spread {
		k.section("spread")
		k.quoted(c.Key)
		k.number(int64(c.MaxSkew))
		k.number(int64(c.MinDomains))
		k.flags(c.Soft, c.AnyNode, c.HonorTaint)
		k.quoted(c.Selector.Text)
	}
	k.podTerms("affinity", s.Affinity)
	k.podTerms("antiAffinity", s.AntiAffinity)
	for _, p := range s.HostPorts {
		k.section("port")
		k.pair(p.Protocol, p.IP)
		k.number(int64(p.Port))
	}
	for _, v := range s.Volumes {
		k.section("volume")
		k.pair(v.Driver, v.Claim)
	}
	k.sets("zones", s.Zones)
	for _, r := range s.Invalid {
		k.section("invalid")
		k.pair(string(r.Code), r.Subject)
		k.pair(r.Have, r.Want)
	}
	k.section("refuses")
	k.flags(s.Refuses)
	return string(k.buf)
}

func (k *keyText) section(name string) {
	k.buf = append(k.buf, ' ')
	k.buf = append(k.buf, name...)
}

func (k *keyText) quoted(text string) {
	k.buf = append(k.buf, ' ')
	k.buf = strconv.AppendQuoteToASCII(k.buf, text)
}

func (k *keyText) pair(key, value string) {
	k.quoted(key)
	k.quoted(value)
}

func (k *keyText) number(n int64) {
	k.buf = append(k.buf, ' ')
	k.buf = strconv.AppendInt(k.buf, n, 10)
}

func (k *keyText) flags(flags ...bool) {
	for _, f := range flags {
		k.buf = append(k.buf, ' ')
		k.buf = strconv.AppendBool(k.buf, f)
	}
}

func (k *keyText) requests(v resources.Vec, table resources.Table) {
	k.section("requests")
	var named []string
	for lane := range table.Len() {
		if v.At(lane) != 0 {
			named = append(named, string(table.Name(lane)))
		}
	}
	slices.Sort(named)
	for _, name := range named {
		lane, _ := table.Lane(corev1.ResourceName(name))
		k.quoted(name)
		k.number(v.At(lane))
	}
}

func (k *keyText) sets(name string, sets []reqs.Set) {
	for _, s := range sets {
		k.section(name)
		k.set(s)
	}
}

func (k *keyText) set(s reqs.Set) {
	for _, key := range s.Keys() {
		r := s[key]
		k.quoted(key)
		k.flags(r.Not, r.Bounds.HasLo, r.Bounds.HasHi)
		k.number(r.Bounds.Lo)
		k.number(r.Bounds.Hi)
		k.number(int64(r.MinValues))
		k.texts(r.Values)
	}
	k.section("end")
}

func (k *keyText) texts(list []string) {
	k.buf = append(k.buf, " ["...)
	for _, text := range list {
		k.quoted(text)
	}
	k.buf = append(k.buf, " ]"...)
}

func (k *keyText) podTerms(name string, terms []PodTerm) {
	for _, t := range terms {
		k.section(name)
		k.quoted(t.Key)
		k.number(int64(t.Weight))
		k.quoted(t.Selector.Text)
		k.flags(t.Everywhere)
		k.texts(t.Namespaces)
	}
}
