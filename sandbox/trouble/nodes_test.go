package trouble_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Row "NodeClaim stuck unlaunched" (S-058, LC-04). Not parallel: no test could launch.
func TestStuckUnlaunched(t *testing.T) {
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large")
	s.ready()
	end := s.injectFault("permissions", `{"role":"KarpenterControllerRole-sandbox","action":"ec2:CreateFleet"}`)
	s.pod("web")
	claim := s.claim()
	s.waitForOutput("describe nodeclaim "+claim, "Reason: Unauthorized Status: Unknown Type: Launched", "no policy of the controller's role allows this; compare the role with the policies of the installation guide", "not authorized to perform: ec2:CreateFleet")
	s.waitForLog("failed launching nodeclaim", claim)
	end()
	s.waitForRunningPod("web") // it is tried again
}

// Row "node never registers": the claim says what to look at.
func TestNeverRegisters(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.nodes(fakenode.Fault{NeverJoin: true})
	s.applyClass()
	s.pool("m5.large")
	s.pod("web")
	s.waitForOutput("describe nodeclaim "+s.claim(), "Reason: NodeNotFound Status: Unknown Type: Registered", "has joined yet", "access entry or aws-auth", "kubelet log")
}

// Row "node Unauthorized": a role without an access entry cannot join; the claim names the entry.
func TestNodeUnauthorized(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	_, err := iam.NewFromConfig(adminConfig()).CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: new("Stranger"), AssumeRolePolicyDocument: new(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := iam.NewFromConfig(adminConfig()).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
		RoleName: new(world.ControllerRole), PolicyName: new("stranger"),
		PolicyDocument: new(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::` + world.Account + `:role/Stranger"}]}`),
	}); err != nil {
		t.Fatal(err)
	}
	s.applyClass("KarpenterNodeRole-sandbox", "Stranger")
	s.pool("m5.large")
	s.pod("web")
	s.waitForOutput("describe nodeclaim "+s.claim(), "Reason: NodeNotFound Status: Unknown Type: Registered", "whether the role of the node may join the cluster (access entry or aws-auth)")
}

// Row "node never registers", for images that leave the taint out.
func TestTaintMissing(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.nodes(fakenode.Fault{NoUnregisteredTaint: true})
	s.applyClass()
	s.pool("m5.large")
	s.pod("web")
	s.waitForOutput("describe nodeclaim "+s.claim(), "Warning UnregisteredTaintMissing", "joined without the taint karpenter.sh/unregistered:NoExecute", "let the kubelet register with that taint")
}

// Rows "node not initialized" and "nodes not removed" (LC-11, LC-12): each obstacle is named, and the node says
// that it stays because of it.
func TestNotInitialized(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault fakenode.Fault
		types string
		pool  []string
		pod   []string
		want  []string
	}{
		"missing resource": {
			fault: fakenode.Fault{Without: []corev1.ResourceName{"nvidia.com/gpu"}}, types: "g4dn.xlarge", pod: []string{"{cpu: 1}", "{cpu: 1}, limits: {nvidia.com/gpu: 1}"},
			want: []string{"Reason: ResourceNotRegistered", "has no resource nvidia.com/gpu yet; is its device plugin running?"},
		},
		"startup taint": {
			fault: fakenode.Fault{StartupTaintsLate: time.Hour}, types: "m5.large", pool: []string{"requirements:", "startupTaints: [{key: cni, effect: NoSchedule}]\n      requirements:"},
			want: []string{"Reason: StartupTaintsExist", "Startup taint cni:NoSchedule is still on node"},
		},
		"not ready": {
			fault: fakenode.Fault{NeverReady: true}, types: "m5.large",
			want: []string{"Reason: NodeNotReady", " is not ready: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := beginCase(t)
			s.nodes(tc.fault)
			s.applyClass()
			s.pool(tc.types, tc.pool...)
			s.pod("web", tc.pod...)
			claim := s.claim()
			s.waitForOutput("describe nodeclaim "+claim, append(tc.want, "Status: Unknown Type: Initialized")...)
			node := s.runKubectl("get", "nodeclaim", claim, "-o", "jsonpath={.status.nodeName}")
			s.waitForOutput("describe node "+node, "DisruptionBlocked", "is not initialized")
		})
	}
}

// Row "instance ends at once": the claim goes, and the pod gets another.
func TestInstanceEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.nodes(fakenode.Fault{NeverJoin: true})
	s.applyClass()
	s.pool("m5.large")
	s.pod("web")
	claim := s.claim()
	s.waitForOutput("describe nodeclaim "+claim, "Status: True Type: Launched")
	server.World.Nodes.Faults().Clear(s.name)
	if _, err := server.Control(t.Context(), "POST", "kill", `{"selector":{"nodepool":"`+s.name+`"}}`); err != nil {
		t.Fatal(err)
	}
	s.waitUntil(func() string {
		if out, err := s.run("", "get", "nodeclaim", claim); err == nil {
			return out
		}
		return ""
	})
	s.waitForRunningPod("web")
}

// Row "memory estimate wrong" (LC-40).
func TestMemoryEstimateWrong(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.nodes(fakenode.Fault{MemoryLoss: 0.3})
	s.applyClass()
	s.pool("m5.large")
	s.pod("web", "{cpu: 1}", "{cpu: 1, memory: 1Gi}")
	s.waitForOutput("describe nodeclaim "+s.claim(), "Status: False Type: ConsistentStateFound", "memory", "vmMemoryOverheadPercent")
}

// Rows "nodes not removed" and "consolidation too eager" (S-182, S-183, S-066): a PodDisruptionBudget keeps a node,
// and an annotation keeps an empty one; an event names each. Taking the annotation away with a trailing dash lets
// the node go.
func TestNodeNotRemoved(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large", "consolidateAfter: Never", "consolidateAfter: 5s")
	s.pod("web", "annotations: {}", "labels: {app: web}")
	s.waitForRunningPod("web")
	node := s.runKubectl("get", "pod", "-n", s.namespace, "web", "-o", "jsonpath={.spec.nodeName}")
	s.apply("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: " + s.namespace + "}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}")
	s.waitForOutput("describe node "+node, "DisruptionBlocked", "PodDisruptionBudget "+s.namespace+"/all")
	s.runKubectl("annotate", "node", node, "karpenter.sh/do-not-disrupt=true")
	s.runKubectl("delete", "pod", "-n", s.namespace, "web", "--grace-period=0", "--force")
	s.waitForOutput("describe node "+node, "DisruptionBlocked", "the node carries annotation karpenter.sh/do-not-disrupt")
	s.runKubectl("annotate", "node", node, "karpenter.sh/do-not-disrupt-")
	s.waitUntil(func() string {
		if out, err := s.run("", "get", "node", node); err == nil {
			return out
		}
		return ""
	})
}

// Row "nodes not removed", by a volume that is not detached (LC-37): the terminating node names it.
func TestVolumeKeepsTheNode(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.nodes(fakenode.Fault{DetachLate: time.Hour})
	s.applyClass()
	s.pool("m5.large")
	s.apply("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: " + s.namespace + "}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}")
	s.pod("store", "  containers:", "  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n  containers:")
	s.waitForRunningPod("store")
	node := s.runKubectl("get", "pod", "-n", s.namespace, "store", "-o", "jsonpath={.spec.nodeName}")
	volume := s.runKubectl("get", "pvc", "-n", s.namespace, "data", "-o", "jsonpath={.spec.volumeName}")
	s.runKubectl("delete", "node", node, "--wait=false")
	s.waitForOutput("describe node "+node, "AwaitingVolumeDetachment", volume)
}

// Row "nodes not removed", by an annotation of a pod, and by a budget (S-065, S-182).
func TestBudgetBlocks(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large", "consolidateAfter: Never", "consolidateAfter: 5s, budgets: [{nodes: \"0\"}]")
	s.pod("web", "annotations: {}", "annotations: {karpenter.sh/do-not-disrupt: \"true\"}")
	s.waitForRunningPod("web")
	node := s.runKubectl("get", "pod", "-n", s.namespace, "web", "-o", "jsonpath={.spec.nodeName}")
	s.waitForOutput("describe node "+node, "DisruptionBlocked", "pod "+s.namespace+"/web carries annotation karpenter.sh/do-not-disrupt")
	s.runKubectl("delete", "pod", "-n", s.namespace, "web", "--grace-period=0", "--force")
	s.waitForOutput("describe nodepool "+s.name, "DisruptionBlocked", "a budget of the NodePool says 0")
}

// Row "AWS node still present after uninstall": while no controller runs, the finalizer keeps the node,
// and a patch lets it go. Not parallel: the controller is stopped.
func TestUninstalled(t *testing.T) {
	s := beginCase(t)
	s.applyClass()
	s.pool("m5.large")
	s.pod("web")
	s.waitForRunningPod("web")
	node := s.runKubectl("get", "pod", "-n", s.namespace, "web", "-o", "jsonpath={.spec.nodeName}")
	controller.Pause()
	t.Cleanup(controller.Resume)
	s.runKubectl("delete", "node", node, "--wait=false")
	if out := s.runKubectl("get", "node", node, "-o", "yaml"); !strings.Contains(out, "- karpenter.sh/termination") || !strings.Contains(out, "deletionTimestamp") {
		t.Errorf("the finalizer is not shown:\n%s", out)
	}
	s.runKubectl("patch", "node", node, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if out, err := s.run("", "get", "node", node); err == nil {
		t.Errorf("the node is still there:\n%s", out)
	}
}
