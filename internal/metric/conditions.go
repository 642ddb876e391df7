package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Conditions are the metrics about the conditions and the end of the objects of one kind.
type Conditions struct {
	Count              *Live
	CurrentSeconds     *Live
	TransitionSeconds  *prometheus.HistogramVec
	Transitions        *prometheus.CounterVec
	TerminationCurrent *Live
	TerminationSeconds *prometheus.HistogramVec
}

// defineConditions makes the metrics of each kind, and the old ones, which name group and kind in labels.
func (b *builder) defineConditions(s *Set) {
	s.Conditions = map[string]Conditions{}
	for _, kind := range slices.Concat([]string{"nodeclaim", "nodepool", "node"}, b.classes, []string{"nodeoverlay", "capacitybuffer"}) {
		s.Conditions[kind] = b.conditionsOf("operator_"+kind+"_", "")
	}
	s.AllConditions = b.conditionsOf("operator_", "deprecated, use the metric of the kind: ", "group", "kind")
}

func (b *builder) conditionsOf(prefix, note string, more ...string) Conditions {
	with := func(labels ...string) []string { return append(slices.Clip(more), labels...) }
	return Conditions{
		Count:              b.addLive(prefix+"status_condition_count", note+"1 for each condition of an object, with its state as labels", with("namespace", "name", "type", "status", "reason")...),
		CurrentSeconds:     b.addLive(prefix+"status_condition_current_status_seconds", note+"for how long a condition has had its status", with("namespace", "name", "type", "status", "reason")...),
		TransitionSeconds:  b.histogram(prefix+"status_condition_transition_seconds", note+"for how long a condition had had a status when it changed", doubling(0.5, 15), with("type", "status", "to_status")...),
		Transitions:        b.counter(prefix+"status_condition_transitions_total", note+"changes of the status of a condition, by the new one", with("type", "status", "reason")...),
		TerminationCurrent: b.addLive(prefix+"termination_current_time_seconds", note+"time since the deletion of an object that still exists was requested", with("namespace", "name")...),
		TerminationSeconds: b.histogram(prefix+"termination_duration_seconds", note+"from the request to delete an object until it is deleted", doubling(0.5, 15), with()...),
	}
}
