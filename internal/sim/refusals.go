package sim

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// refusals has the cloud refuse to terminate instances for some time.
func (m *maker) refusals() {
	for range 1 + m.IntN(3) {
		lasts := m.time(30*time.Second, 30*time.Minute)
		refusal := pick(m,
			cloud.Error{Kind: cloud.Denied, Op: "terminate", Err: errors.New("a permission is missing")},
			cloud.Error{Kind: cloud.Throttled, Op: "terminate", Err: errors.New("too many requests")},
			cloud.Error{Kind: cloud.Unknown, Op: "terminate", Err: errors.New("the service is out of order")},
			cloud.Error{Kind: cloud.Unknown, Op: "terminate", Reason: "TerminationProtected", Err: errors.New("the instance is protected")},
		)
		m.change("fault: the cloud terminates no instance: "+refusal.Err.Error(), func(w *World) { w.market.refusing, w.market.refusal = w.now.Add(lasts), refusal })
	}
}

// What the rules of refused terminations allow (LC-28, FM-L16): until the claim says why, and until the request is repeated
// once the cloud accepts it.
const (
	refusalSaid      = time.Minute
	repeatedAfter    = 2 * time.Minute
	terminatesOnUpBy = time.Minute // after the start of a process
)

// terminations checks that a claim says that its instance is terminated only if it is, that it says why if the cloud refuses
// that, and that the request is repeated until the cloud accepts it.
func (c *checks) terminations() {
	p := c.w.process
	up := p != nil && p.synced && c.w.now.Sub(p.started) > terminatesOnUpBy
	for _, name := range c.w.api.claimNames() {
		claim := c.w.api.claims[name]
		i := c.w.market.byID[claim.Status.ProviderID]
		ends := condition.Find(claim.Status.Conditions, karpv1.ConditionInstanceTerminating)
		if i != nil && !i.ending && ends != nil && ends.Status == metav1.ConditionTrue {
			c.w.broken("FM-L16", "claim %s says that its instance is terminated, which the cloud has not accepted", name)
		}
		waits := up && i != nil && !i.ending && c.drained(claim)
		refused, mute := c.w.now.Before(c.w.market.refusing), c.w.now.Before(c.w.market.mute)
		if c.lasts(c.refused, name, waits && refused && !mute) > refusalSaid && (ends == nil || ends.Reason == "" || ends.Message == "") {
			c.w.broken("G13", "the cloud refuses to terminate the instance of claim %s, and no condition says why", name)
		}
		if c.lasts(c.accepting, name, waits && !refused && !mute) > repeatedAfter {
			c.w.broken("FM-L16", "the cloud would terminate the instance of claim %s, and is not requested to", name)
		}
	}
}

// drained reports whether nothing but the cloud holds the end of a claim.
func (c *checks) drained(claim *karpv1.NodeClaim) bool {
	if claim.DeletionTimestamp == nil {
		return false
	}
	detached := condition.Find(claim.Status.Conditions, karpv1.ConditionVolumesDetached)
	return condition.True(claim.Status.Conditions, karpv1.ConditionDrained) && detached != nil && detached.Status != metav1.ConditionUnknown ||
		len(c.w.api.nodesOf(claim)) == 0 || !condition.True(claim.Status.Conditions, karpv1.ConditionRegistered)
}
