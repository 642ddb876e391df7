package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// orders checks a claim that is about to be created: no pod has another one on its way, whichever process
// ordered that (G8).
func (c *checks) orders(claim *karpv1.NodeClaim, n solve.NewNode) {
	c.fits(claim)
	for _, key := range n.Pods {
		pod, _ := c.w.process.seen[pods][key.Name].(*corev1.Pod)       // another one may have its name meanwhile
		if pod == nil || len(pod.Spec.TopologySpreadConstraints) > 0 { // where others went may have closed the zone of the first
			continue
		}
		if first := c.w.api.claims[c.launchedFor[pod.UID]]; first != nil && first.DeletionTimestamp == nil && first.Name != claim.Name && !c.up(first) &&
			!c.failed[first.Name] {
			c.w.broken("G8", "pod %s causes claim %s although claim %s is on its way for it", key.Name, claim.Name, first.Name)
		}
		if now := c.w.api.pods[key.Name]; now != nil && now.UID == pod.UID && now.Spec.NodeName == pod.Spec.NodeName { // else it found a place meanwhile
			c.launchedFor[pod.UID] = claim.Name
		}
	}
}

// purchase is a claim that was ordered for a pod.
type purchase struct {
	claim string
	at    time.Time
}

// checkLaunch checks a claim for pending pods: no pod gets a third node within five minutes although two came up and have not
// helped it (FM B14).
func (c *checks) checkLaunch(p *process, claim *karpv1.NodeClaim, n solve.NewNode) {
	for _, key := range n.Pods {
		pod, _ := p.seen[pods][key.Name].(*corev1.Pod)
		if pod == nil || pod.Spec.NodeName != "" {
			continue
		}
		came, last := 0, time.Time{}
		for _, b := range c.served[pod.UID] {
			if of, _ := p.seen[claims][b.claim].(*karpv1.NodeClaim); of != nil && of.DeletionTimestamp == nil && condition.True(of.Status.Conditions, karpv1.ConditionInitialized) {
				came, last = came+1, b.at
			}
		}
		if came >= 2 && c.w.now.Sub(last) < 5*time.Minute {
			c.w.broken("one node after another", "pod %s causes claim %s, %s after the last of %d nodes that came up for it", key.Name, claim.Name, c.w.now.Sub(last), came)
		}
		c.served[pod.UID] = append(c.served[pod.UID], purchase{claim.Name, c.w.now})
	}
}

// launchEnds checks that the claim of an instance that is launched is still there: it was not released while that was under
// way (FM-A06).
func (c *checks) launchEnds(claim *karpv1.NodeClaim) {
	if now := c.w.api.claims[claim.Name]; now == nil || now.UID != claim.UID {
		c.w.broken("FM-A06", "claim %s was released while its instance was being launched", claim.Name)
	}
}

// launches checks that a claim is not launched while the last batch of claims is being written, for as long as one may take
// (SC-51).
func (c *checks) launches(claim *karpv1.NodeClaim, batch int, requested time.Time) {
	const most = 10 * time.Second
	switch waited := c.w.now.Sub(requested); {
	case batch > 0 && batch == c.batch && waited < most:
		c.w.broken("SC-51", "claim %s is launched after %s, while a batch of claims is being written", claim.Name, waited)
	case waited > most+time.Second:
		c.w.broken("SC-51", "claim %s is launched %s after that was requested", claim.Name, waited)
	}
}
