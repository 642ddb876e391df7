package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// checkRelaunch is G11 for the write that costs most: a launch that is requested again, after a crash or an
// response that got lost, has the end state of the first. A claim keeps the instance it has. That the account
// has no second one for it, checkTwins checks. Other writes are patches and deletions, whose repetition
// changes nothing by their nature; that they do not go on forever is G12.
func (c *Checker) checkRelaunch(at time.Time, before, now *claim) {
	if before == nil || before.Status.ProviderID == "" || before.Status.ProviderID == now.Status.ProviderID {
		return
	}
	c.reportViolation(Violation{
		Rule: G11, At: at, Object: claimObject(now.Name), Pool: poolOf(now.NodeClaim),
		What: fmt.Sprintf("it had instance %s and now has %q", before.Status.ProviderID, now.Status.ProviderID),
	})
}

// checkDuplicateInstances is G11 for the account: an instance gets the name of its claim once the claim has it, so that
// two with one name were both taken over. G1 gives orphans, which have no name, time to go; here is no
// excuse.
func (c *Checker) checkDuplicateInstances(at time.Time) {
	named := map[string][]string{}
	for id, i := range c.instances {
		if name := i.Tags[claimTag]; name != "" && c.isOwnInstance(i) && i.State != stateTerminated && i.State != stateShuttingDown {
			named[name] = append(named[name], id)
		}
	}
	for name, ids := range named {
		if len(ids) < 2 {
			continue
		}
		slices.Sort(ids)
		c.reportViolation(Violation{
			Rule: G11, At: at, Object: claimObject(name), Pool: c.instances[ids[0]].Tags[karpv1.LabelNodePool],
			What: "it was launched twice: " + strings.Join(ids, ", "),
		})
	}
}
