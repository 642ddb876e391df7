package explain

import (
	"cmp"
	"math"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// finding is a reason, and how many more subjects it holds for.
type finding struct {
	why   reason.Reason
	more  int
	named bool // the pod names the subject by a label
}

// fold combines findings that differ only in their subject. What the pod names comes first, then the most useful. If
// more than limit would remain, finer differences are ignored too: first the actual value, then the required one. The
// first finding of each group is shown. Findings beyond the limit are counted.
func fold(list []finding, limit int) []reason.Reason {
	slices.SortStableFunc(list, func(a, b finding) int {
		return cmp.Or(bitset.Bit(b.named)-bitset.Bit(a.named), cmp.Compare(sortDistance(a.why), sortDistance(b.why)))
	})
	for detail := 2; detail >= 0; detail-- {
		if list = foldBy(list, detail); len(list) <= limit {
			break
		}
	}
	cut := 0
	if len(list) > limit {
		for _, f := range list[limit-1:] {
			cut += 1 + f.more
		}
		list = list[:limit-1]
	}
	out := make([]reason.Reason, len(list), len(list)+1)
	for i, f := range list {
		out[i] = f.why
		if f.more > 0 {
			out[i].Subject += " and " + number(f.more) + " more"
		}
	}
	if cut > 0 {
		out = append(out, reason.Reason{Code: reason.MorePools, Have: number(cut)})
	}
	return out
}

// foldBy folds findings that agree on code and causes; with detail 1 also on the required value, with detail 2 also
// on the actual one.
func foldBy(list []finding, detail int) []finding {
	at := make(map[string]int, len(list))
	out := make([]finding, 0, len(list))
	for _, f := range list {
		var key strings.Builder
		if f.named { // never hidden behind another
			model.AppendKey(&key, "meant")
		}
		model.AppendKey(&key, string(f.why.Code))
		for i := range f.why.Because {
			model.AppendKey(&key, string(f.why.Because[i].Code))
		}
		if detail > 0 {
			model.AppendKey(&key, f.why.Want)
		}
		if detail > 1 && !otherPool(f.why) {
			model.AppendKey(&key, f.why.Have)
		}
		if i, known := at[key.String()]; known {
			out[i].more += f.more + 1
			continue
		}
		at[key.String()] = len(out)
		out = append(out, f)
	}
	return out
}

// sortDistance is the distance of a reason, for sorting. A pod that names another pool is the farthest: this holds
// for all pools but one, and would hide what that one lacks.
func sortDistance(why reason.Reason) int {
	if otherPool(why) {
		return math.MaxInt
	}
	return distance(why.Code)
}

func otherPool(why reason.Reason) bool {
	return why.Code == reason.RequirementConflict && strings.HasPrefix(why.Want, karpv1.LabelNodePool+" ")
}

// distance is how far a pod is from being schedulable: small for a near miss, large for a pool or node that was never
// meant for it.
func distance(code reason.Code) int {
	nearest := []reason.Code{
		reason.ReservedDeferred, reason.ReservedLost,
		reason.DeviceClaimUnusable, reason.DeviceSearchCut, reason.DeviceDriverSilent, reason.DevicesMissing, reason.DevicesElsewhere,
		reason.MinValuesUnmet, reason.LimitExceeded, reason.NodeLimitReached, reason.TopologyUnsatisfiable,
		reason.HostPortConflict, reason.MatchingTypesNotOffered, reason.NoOffering, reason.CapacityOut, reason.PoolSoldOut,
		reason.MatchingTypesTooSmall, reason.VolumeLimit, reason.NodeFull, reason.NoTypeFits, reason.NoTypeMeetsAll,
		reason.FittingTypesExcluded, reason.NoTypeMeetsRequirements, reason.NoTypeSuits,
		reason.VolumeZoneConflict, reason.NodeUnready, reason.NodeSettling, reason.ClassUnsuited, reason.PoolFiltered, reason.PoolClosed,
		reason.RequirementConflict, reason.LabelUnknown, reason.TaintNotTolerated,
	}
	if at := slices.Index(nearest, code); at >= 0 {
		return at
	}
	return len(nearest)
}
