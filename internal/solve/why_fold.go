package solve

import (
	"math"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// finding is a reason, and for how many subjects beyond its own it holds.
type finding struct {
	why  reason.Reason
	more int
}

// fold puts findings that differ only in their subject together, most useful first. If more than
// limit would remain, finer differences are left out too: first what was there, then what was wanted.
// The first of those folded is the one shown.
func fold(list []finding, limit int) []reason.Reason {
	slices.SortStableFunc(list, func(a, b finding) int { return far(a.why) - far(b.why) })
	for detail := 2; detail >= 0; detail-- {
		if list = foldBy(list, detail); len(list) <= limit {
			break
		}
	}
	list = list[:min(len(list), limit)]
	out := make([]reason.Reason, len(list))
	for i, f := range list {
		out[i] = f.why
		if f.more > 0 {
			out[i].Subject += " and " + number(f.more) + " more"
		}
	}
	return out
}

// foldBy folds findings that agree on code and causes, with detail 1 on what was wanted too, with
// detail 2 also on what was there.
func foldBy(list []finding, detail int) []finding {
	at := make(map[string]int, len(list))
	out := make([]finding, 0, len(list))
	for _, f := range list {
		var key strings.Builder
		appendKey(&key, string(f.why.Code))
		for i := range f.why.Because {
			appendKey(&key, string(f.why.Because[i].Code))
		}
		if detail > 0 {
			appendKey(&key, f.why.Want)
		}
		if detail > 1 && !otherPool(f.why) {
			appendKey(&key, f.why.Have)
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

// far is the distance of a reason, for sorting. What is farthest is that the pod names another pool:
// it is true of all pools but one, and would hide what that one lacks.
func far(why reason.Reason) int {
	if otherPool(why) {
		return math.MaxInt
	}
	return distance(why.Code)
}

func otherPool(why reason.Reason) bool {
	return why.Code == reason.RequirementConflict && strings.HasPrefix(why.Want, karpv1.LabelNodePool+" ")
}

// distance is how far from a place a reason is: small numbers for what a pod only just missed, large
// ones for what was never meant for it.
func distance(code reason.Code) int {
	nearest := []reason.Code{
		reason.ReservedDeferred, reason.ReservedLost,
		reason.MinValuesUnmet, reason.LimitExceeded, reason.NodeLimitReached, reason.TopologyUnsatisfiable,
		reason.HostPortConflict, reason.MatchingTypesNotOffered, reason.NoOffering, reason.PoolSoldOut,
		reason.MatchingTypesTooSmall, reason.VolumeLimit, reason.NodeFull, reason.NoTypeFits, reason.NoTypeMeetsAll,
		reason.FittingTypesExcluded, reason.NoTypeMeetsRequirements, reason.NoTypeSuits,
		reason.VolumeZoneConflict, reason.NodeUnready, reason.NodeSettling,
		reason.RequirementConflict, reason.LabelUnknown, reason.TaintNotTolerated,
		reason.PoolFiltered, reason.PoolClosed,
	}
	if at := slices.Index(nearest, code); at >= 0 {
		return at
	}
	return len(nearest)
}
