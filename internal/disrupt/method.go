package disrupt

import karpv1 "github.com/dovetail-sh/dovetail/api/v1"

// Method is one of the ways to find nodes to remove.
type Method struct {
	Name   string
	Reason karpv1.DisruptionReason
	Type   string // label consolidation_type, unless its commands say other

	run       func(*Decision, *View, *planningState)
	prices    bool // it compares or chooses by them
	unchanged bool // it finds nothing again as long as nothing changes
	off       bool
}

// EnabledMethods are the methods that are switched on, in their order (disruption 3, V15-12).
func EnabledMethods(on Methods) []Method {
	all := []Method{
		{Name: "repair", Reason: karpv1.ReasonUnhealthy, run: (*Decision).repairUnhealthy, off: !on.Repair},
		{Name: "emptiness", Reason: karpv1.ReasonEmpty, Type: "empty", run: (*Decision).removeEmpty},
		{Name: "static drift", Reason: karpv1.ReasonDrifted, run: (*Decision).replaceStaticDrifted, off: !on.Static},
		{Name: "drift", Reason: karpv1.ReasonDrifted, run: (*Decision).replaceDrifted, prices: true},
		{Name: "consolidation", Reason: karpv1.ReasonUnderutilized, Type: "single", run: (*Decision).consolidate, prices: true, unchanged: true},
	}
	out := all[:0]
	for _, m := range all {
		if !m.off {
			out = append(out, m)
		}
	}
	return out
}
