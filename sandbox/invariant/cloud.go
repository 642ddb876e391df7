package invariant

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// States and tags of instances.
const (
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	clusterTag        = "eks:eks-cluster-name"
	claimTag          = "karpenter.sh/nodeclaim"
)

func newCount(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

func instanceObject(id string) string { return "instance " + id }

// Cloud lists the instances there are.
func (c *Checker) Cloud(at time.Time, instances []awsemu.InstanceView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]awsemu.InstanceView, len(instances))
	for _, i := range instances {
		next[i.ID] = i
		if c.isOwnInstance(i) {
			c.recordHistory(at, instanceObject(i.ID), fmt.Sprintf("%s %s %s in %s", i.State, i.Type, i.CapacityType, i.Zone))
		}
	}
	c.instances = next
}

// Call processes an AWS call that got its response.
func (c *Checker) Call(at time.Time, call awsemu.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.options.Role != "" && call.Role != c.options.Role {
		return
	}
	c.countCall(at, call)
	ids := uidText(call)
	for _, id := range ids {
		outcome := call.Code
		if outcome == "" {
			outcome = "ok"
		}
		if !strings.HasPrefix(call.Action, "Describe") {
			c.recordHistory(at, instanceObject(id), call.Action+": "+outcome)
		}
	}
	if call.Action != "TerminateInstances" && call.Action != "StopInstances" && call.Action != "CreateTags" {
		return
	}
	for _, id := range ids {
		c.checkTouched(at, call, id)
		if call.Action == "TerminateInstances" && call.Code == "" {
			c.suspectTermination(at, id)
		}
	}
}

// uidText are the instances that a call names.
func uidText(call awsemu.Call) []string {
	var ids []string
	for key, value := range call.Parameters {
		if (strings.HasPrefix(key, "InstanceId.") || strings.HasPrefix(key, "ResourceId.")) && strings.HasPrefix(value, "i-") {
			ids = append(ids, value)
		}
	}
	return ids
}

// isOwnInstance says whether an instance is tagged as one of this cluster, made by a controller.
func (c *Checker) isOwnInstance(i awsemu.InstanceView) bool {
	return i.Tags[clusterTag] == c.options.Cluster && i.Tags[karpv1.LabelNodePool] != ""
}

// checkTouched is the second part of G2: what is not ours is not touched. An instance that lost its tag
// and still has a claim belongs to this cluster, too.
func (c *Checker) checkTouched(at time.Time, call awsemu.Call, id string) {
	i, known := c.instances[id]
	if !known || c.isOwnInstance(i) || len(c.claimsOf(id)) > 0 {
		return
	}
	c.reportViolation(Violation{Rule: G2, At: at, Object: instanceObject(id), What: call.Action + " was called for it, and it does not carry the tag of the cluster"})
}

// claimsOf are the claims that name an instance.
func (c *Checker) claimsOf(id string) []*claim {
	var found []*claim
	for _, n := range c.claims {
		if instanceID(n.Status.ProviderID) == id {
			found = append(found, n)
		}
	}
	return found
}

// checkInstances is G1 and the first part of G2: at rest, an instance that runs has one claim, and a
// claim one instance. An instance belongs to the claim that names it, or that its tag names; the orphan
// of a launch that was done twice belongs to none.
func (c *Checker) checkInstances(at time.Time) {
	byClaim := map[string][]string{}
	for id, i := range c.instances {
		alive := i.State != stateTerminated && i.State != stateShuttingDown
		owners := c.claimsOf(id)
		orphan := alive && c.isOwnInstance(i) && len(owners) == 0
		if lasts := c.heldFor(at, "orphan "+id, orphan); lasts > c.options.Limits.Orphan {
			c.reportViolation(Violation{
				Rule: G2, At: at, Object: instanceObject(id), Pool: i.Tags[karpv1.LabelNodePool],
				What: fmt.Sprintf("no NodeClaim has it for %s, and it still is %s", lasts.Round(time.Second), i.State),
			})
		}
		if !alive {
			continue
		}
		name := i.Tags[claimTag]
		if len(owners) > 0 {
			name = owners[0].Name
		}
		if name != "" {
			byClaim[name] = append(byClaim[name], id)
		}
	}
	for name := range c.claims {
		double := len(byClaim[name]) > 1
		if lasts := c.heldFor(at, "double "+name, double); lasts > c.options.Limits.Rest {
			c.reportViolation(Violation{
				Rule: G1, At: at, Object: claimObject(name), Pool: poolOf(c.claims[name].NodeClaim),
				What: fmt.Sprintf("it has %d instances for %s: %s", len(byClaim[name]), lasts.Round(time.Second), strings.Join(byClaim[name], ", ")),
			})
		}
	}
}
