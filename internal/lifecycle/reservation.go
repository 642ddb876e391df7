package lifecycle

import (
	"maps"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// blockNotice is how long before its end a block of capacity is left: the cloud ends its instances earlier than the
// block, and drains take a while.
const blockNotice = 40 * time.Minute

// BlockEnds reports whether a block of capacity that ends at a time is left by now: nothing is launched into it any
// more, and the claims in it are deleted (FM-F09).
func BlockEnds(end, now time.Time) bool { return !now.Before(end.Add(-blockNotice)) }

// Blocks are the blocks of capacity that claims may run in, and how the cloud labels these claims.
type Blocks struct {
	ReservationLabel string               // under which a claim has its reservation
	TypeLabel        string               // under which it has the type of the reservation
	Type             string               // of blocks: other reservations leave their instances behind when they end
	Ends             map[string]time.Time // by reservation, as far as it is known
}

// Ending returns the end of the block that a claim has to leave by now; false if it need not (FM-F09). A claim that is
// being deleted leaves already.
func (b Blocks) Ending(claim *karpv1.NodeClaim, now time.Time) (end time.Time, ending bool) {
	end, known := b.Ends[claim.Labels[b.ReservationLabel]]
	return end, known && claim.Labels[b.TypeLabel] == b.Type && claim.DeletionTimestamp.IsZero() && BlockEnds(end, now)
}

// OnDemandLabels returns the labels of a claim or Node whose instance runs on, but no longer in its reservation
// (FM-F09). reservation are the labels that said which one it was.
func OnDemandLabels(labels map[string]string, reservation ...string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[karpv1.LabelCapacityType] = karpv1.CapacityTypeOnDemand
	for _, key := range reservation {
		delete(out, key)
	}
	return out
}
