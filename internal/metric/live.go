package metric

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Live is a gauge about objects that come and go. Its series are made when they are scraped, so
// they cost nothing in between and none stays behind when its object is gone (FM N03).
type Live struct {
	desc   *prometheus.Desc
	labels []string
}

// addLive defines a gauge; the owner of the objects collects it.
func (b *builder) addLive(name, help string, labels ...string) *Live {
	b.recordDefinition("gauge", name, help, labels)
	return &Live{desc: prometheus.NewDesc(name, help, nil, nil), labels: labels}
}

// Labels are the names of the labels, in the order in which values are given.
func (l *Live) Labels() []string { return l.labels }

// Sample is one series with its value. The labels are those that Pairs or With made.
func (l *Live) Sample(value float64, labels []*dto.LabelPair) prometheus.Metric {
	return sample{desc: l.desc, labels: labels, value: value}
}

type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc returns the description that all series of the gauge have.
func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write fills in the form that is sent.
func (s sample) Write(out *dto.Metric) error {
	out.Label, out.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}

// Pairs makes the labels of series. Equal labels are made once: a scrape of a large cluster has millions
// of them. One is used for one scrape.
type Pairs struct {
	made map[[2]string]*dto.LabelPair
}

// NewPairs returns a maker of labels.
func NewPairs() *Pairs { return &Pairs{made: map[[2]string]*dto.LabelPair{}} }

// Of makes labels from names and as many values. An empty value is left out, which means the same.
func (p *Pairs) Of(names []string, values ...string) []*dto.LabelPair {
	out := make([]*dto.LabelPair, 0, len(names))
	for i, value := range values {
		if value != "" {
			out = append(out, p.one(names[i], value))
		}
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// With returns the labels with one more. They are not changed: others may share them.
func (p *Pairs) With(labels []*dto.LabelPair, name, value string) []*dto.LabelPair {
	at, _ := slices.BinarySearchFunc(labels, name, func(have *dto.LabelPair, name string) int { return cmp.Compare(have.GetName(), name) })
	out := make([]*dto.LabelPair, 0, len(labels)+1)
	out = append(out, labels[:at]...)
	out = append(out, p.one(name, value))
	return append(out, labels[at:]...)
}

func (p *Pairs) one(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if p.made[key] == nil {
		p.made[key] = &dto.LabelPair{Name: &name, Value: &value}
	}
	return p.made[key]
}

// LabelName is how a label of an object is called on metrics: without its domain, in snake case.
func LabelName(key string) string {
	_, name, found := strings.Cut(key, "/")
	if !found {
		name = key
	}
	return strings.ReplaceAll(name, "-", "_")
}

// SnakeCase is how a word in camel case is written as the value of a label.
func SnakeCase(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// ResourceType is how a resource is called on metrics.
func ResourceType(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}
