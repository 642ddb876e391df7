package cluster

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// keyText writes the canonical text of a shape. Texts of users are quoted, so that nothing in them
// can read as something else and the key is always legal in JSON.
type keyText struct{ buf []byte }

// shapeKey says everything a shape means, independent of the order of reading and of lanes: who the pod
// is, what it requests, what else it requests.
func (r *Reader) shapeKey(who *identity, requests resources.Vec, required *constraints) string {
	k := r.keyText()
	k.buf = append(k.buf, who.text...)
	k.section("requests")
	k.buf = r.amounts.append(k.buf, requests, r.table)
	k.buf = append(k.buf, required.text...)
	return r.keepKey(k)
}

// keyText returns an empty text in reused memory, and keep a copy of what was written there.
func (r *Reader) keyText() keyText { return keyText{buf: r.digest.buf[:0]} }

func (r *Reader) keepKey(k keyText) string {
	r.digest.buf = k.buf[:0]
	return string(k.buf)
}

func (r *Reader) identityKey(namespace string, labels []label) string {
	k := r.keyText()
	k.quoted(namespace)
	k.section("labels")
	for _, l := range labels {
		k.pair(l.key, l.value)
	}
	return r.keepKey(k)
}

func (r *Reader) constraintsKey(s *Shape) string {
	k := r.keyText()
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
	if len(s.Devices) > 0 {
		k.section("devices")
		k.texts(s.Devices)
	}
	k.sets("zones", s.Zones)
	for _, r := range s.Invalid {
		k.section("invalid")
		k.pair(string(r.Code), r.Subject)
		k.pair(r.Have, r.Want)
	}
	for _, r := range s.Ignored {
		k.section("ignored")
		k.pair(r.Subject, r.Have)
	}
	k.section("refuses")
	k.flags(s.Refuses)
	return r.keepKey(k)
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

// amountNames has the names of the lanes of a table, quoted, in the order of the names.
type amountNames struct {
	lanes []int
	texts []string
}

// append writes the lanes that are not zero.
func (a *amountNames) append(buf []byte, v resources.Vec, table resources.Table) []byte {
	if len(a.lanes) != table.Len() { // tables only grow
		*a = namesOf(table)
	}
	for i, lane := range a.lanes {
		if n := v.At(lane); n != 0 {
			buf = append(buf, a.texts[i]...)
			buf = strconv.AppendInt(buf, n, 10)
		}
	}
	return buf
}

func namesOf(table resources.Table) amountNames {
	var a amountNames
	for lane := range table.Len() {
		a.lanes = append(a.lanes, lane)
	}
	slices.SortFunc(a.lanes, func(x, y int) int { return strings.Compare(string(table.Name(x)), string(table.Name(y))) })
	for _, lane := range a.lanes {
		a.texts = append(a.texts, " "+strconv.QuoteToASCII(string(table.Name(lane)))+" ")
	}
	return a
}

func (k *keyText) sets(name string, sets []reqs.Set) {
	for _, s := range sets {
		k.section(name)
		k.set(s)
	}
}

func (k *keyText) set(s reqs.Set) {
	var keys []string
	if len(s) > 0 {
		keys = s.Keys()
	}
	for _, key := range keys {
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
