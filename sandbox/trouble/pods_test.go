package trouble_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Row "pod Pending, no node" (S-180): the event of the pod says for each pool why not, and a pool that
// leaves nothing to launch says so itself.
func TestPodPending(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large", "requirements:", "taints: [{key: team, value: a, effect: NoSchedule}]\n      requirements:")
	s.ready()
	s.pod("untolerated")
	s.pod("big", "cpu: 1", "cpu: 3", "  containers:", "  tolerations: [{key: team, operator: Exists}]\n  containers:")
	s.pod("elsewhere", "  nodeSelector: {", "  tolerations: [{key: team, operator: Exists}]\n  nodeSelector: {topology.kubernetes.io/zone: us-east-1a, ")
	for pod, want := range map[string]string{
		"untolerated": "nodepool/" + s.name + ": taint team=a:NoSchedule is not tolerated",
		"big":         "nodepool/" + s.name + ": no instance type has room for cpu:3; the largest has 1930m",
		"elsewhere":   "nodepool/" + s.name + ": no instance type is offered with topology.kubernetes.io/zone In [us-east-1a]",
	} {
		// What the pool of the pod lacks comes first; that other pools have other names hides nothing.
		s.waitForOutput("describe pod -n "+s.namespace+" "+pod, "FailedScheduling", "karpenter No node can take the pod: "+want)
	}
	s.pool("t9.enormous")
	s.waitForOutput("describe nodepool "+s.name, "Warning NoCompatibleInstanceTypes", "no instance type meets its own requirements", "t9.enormous")
}

// Row "pod without requests" (S-181): it gets a node all the same.
func TestPodWithoutRequests(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large")
	s.pod("modest", "{cpu: 1}", "{}")
	s.waitForRunningPod("modest")
}

// Row "NodePool limit reached" (S-180).
func TestLimitReached(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large", "  disruption:", "  limits: {cpu: 2}\n  disruption:")
	s.pod("first")
	s.waitForRunningPod("first")
	s.pod("second")
	s.waitForOutput("describe pod -n "+s.namespace+" second", "nodepool/"+s.name+": every suitable instance type exceeds its limits: cpu:2 at least, 0 left")
	s.waitForOutput("describe nodepool "+s.name, "Resources: Cpu: 2 ")
}

// Row "NodeClaim appears and vanishes" (S-180): no capacity is not what the pool got wrong.
func TestNoCapacity(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	if _, err := server.Control(t.Context(), "POST", "ice", `{"capacityType":"*","instanceType":"r5n.large","zone":"*"}`); err != nil {
		t.Fatal(err)
	}
	s.applyClass()
	s.pool("r5n.large")
	s.pod("web")
	s.waitForOutput("get events -A", "InsufficientCapacityError nodeclaim/"+s.name, "sufficient r5n.large capacity")
	s.waitForOutput("describe pod -n "+s.namespace+" web", "karpenter No node can take the pod: nodepool/"+s.name+": no instance type that meets its requirements is available at present", "it is retried in minutes; or allow more instance types, zones or capacity types")
	s.waitForLog("removing offering from offerings", `"instance-type":"r5n.large"`, `"ttl":"3m0s"`)
	s.waitForMetric(`karpenter_cloudprovider_instance_type_offering_available{capacity_type="on-demand",instance_type="r5n.large",zone="eu-west-1a"} 0`)
}

// Row "spot role missing". Nothing else here uses spot.
func TestSpotRoleMissing(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	if _, err := iam.NewFromConfig(adminConfig()).DeleteRole(t.Context(), &iam.DeleteRoleInput{RoleName: new("AWSServiceRoleForEC2Spot")}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Control(t.Context(), "POST", "permissions", `{"role":"KarpenterControllerRole-sandbox","action":"iam:CreateServiceLinkedRole"}`); err != nil {
		t.Fatal(err)
	}
	s.applyClass()
	s.pool("m5a.large", "on-demand", "spot")
	s.pod("web")
	s.waitForOutput("get events -A", "Warning SpotServiceLinkedRoleMissing nodeclaim/"+s.name, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")
	s.waitForOutput("describe pod -n "+s.namespace+" web", "no instance type that meets its requirements is available at present")
}
