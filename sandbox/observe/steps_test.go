package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// classYAML is a node class like that of the seeds (S-080); more is what else its spec has.
func classYAML(name, more string) string {
	return fmt.Sprintf(`
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
%s`, name, more)
}

// How nodes of a NodePool may go.
const (
	stays        = `{consolidationPolicy: WhenEmpty, consolidateAfter: Never}`
	consolidates = `{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1s}`
)

// pool is a NodePool of a class, with a limit far away.
func pool(name, class, types, capacity, disruption string) string {
	return fmt.Sprintf(`
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [%s]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
  limits: {cpu: 1000, memory: 4000Gi}
  disruption: %s`, name, types, capacity, class, disruption)
}

// deploymentYAML is like inflate (S-078), on nodes of the NodePool of the same name; more is what else its pods have.
func deploymentYAML(name string, replicas int, cpu, more string) string {
	return onPool(name, name, replicas, cpu, more)
}

func onPool(name, pool string, replicas int, cpu, more string) string {
	return fmt.Sprintf(`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}%[6]s}
    spec:
      nodeSelector: {karpenter.sh/nodepool: %[2]s}
      terminationGracePeriodSeconds: 0
      containers:
      - {name: pause, image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7", resources: {requests: {cpu: %[4]q, memory: 256Mi}}}
%[5]s`, name, pool, replicas, cpu, podSpecField(more), podMetadataField(more))
}

// What more of a pod is may be a field of its spec or of its metadata.
func podSpecField(more string) string {
	if strings.HasPrefix(more, "annotations") {
		return ""
	}
	return more
}

func podMetadataField(more string) string {
	if strings.HasPrefix(more, "annotations") {
		return ", " + more
	}
	return ""
}

// liveStep is something that happens in the cluster, to a NodePool of its own.
type liveStep struct {
	name string
	run  func(*liveWorld)
}

// liveSteps run side by side.
func liveSteps() []liveStep {
	return []liveStep{
		{"pods get nodes", func(l *liveWorld) {
			l.apply(classYAML("steady", "") + pool("steady", "steady", "m5.xlarge", "on-demand", stays) + deploymentYAML("steady", 3, "1", "") + daemon)
			l.waitForRunningPods("steady", 3)
		}},
		{"a spot instance is interrupted", func(l *liveWorld) {
			l.apply(classYAML("spot", "") + pool("spot", "spot", "m5.large, m5a.large", "spot", stays) + deploymentYAML("spot", 1, "1", ""))
			l.waitForRunningPods("spot", 1)
			claim := l.ready("spot", 1)[0]
			id := claim.Status.ProviderID[strings.LastIndex(claim.Status.ProviderID, "/")+1:]
			l.callControlAPI(http.MethodPost, "interrupt", fmt.Sprintf(`{"instance":%q,"notice":"60s"}`, id))
			l.waitUntilGone(&claim)
			l.waitForRunningPods("spot", 1)
		}},
		{"empty nodes are removed", func(l *liveWorld) {
			l.apply(classYAML("empty", "") + pool("empty", "empty", "m5.large", "on-demand", consolidates) + deploymentYAML("empty", 0, "1", ""))
			// A rate needs a series that goes on after it was scraped. The end of an instance is not measured if it is over
			// before the controller looks.
			for rounds, measured := 1.0, 0.0; measured < 2; rounds++ {
				if rounds > 10 {
					l.Fatalf("the end of instances was measured %v times", measured)
				}
				l.scale("empty", 1)
				l.waitForRunningPods("empty", 1)
				claim := l.ready("empty", 1)[0]
				l.scale("empty", 0)
				l.waitUntilGone(&claim)
				l.waitUntil("Prometheus knows that the node is gone", func() (bool, string) {
					n := l.latestValue(`sum(karpenter_nodeclaims_terminated_total{nodepool="empty"})`)
					return n >= rounds, fmt.Sprint(n)
				})
				measured = l.latestValue(`karpenter_nodeclaims_instance_termination_duration_seconds_count{nodepool="empty"}`)
			}
		}},
		{"a node that is too large is replaced", func(l *liveWorld) {
			l.apply(classYAML("swap", "") + deploymentYAML("swap", 1, "500m", "") + onPool("swap-large", "swap", 1, "6", ""))
			l.waitForUnschedulable("swap", 1)
			l.waitForUnschedulable("swap-large", 1)
			l.apply(pool("swap", "swap", "m5.large, m5.2xlarge", "on-demand", stays))
			l.waitForRunningPods("swap", 1)
			old := l.ready("swap", 1)[0]
			l.scale("swap-large", 0)
			l.waitForRunningPods("swap-large", 0)
			l.apply(pool("swap", "swap", "m5.large, m5.2xlarge", "on-demand", consolidates))
			l.waitUntilGone(&old)
			l.ready("swap", 1)
		}},
		{"a node drifts", func(l *liveWorld) {
			l.apply(classYAML("drift", "") + pool("drift", "drift", "m5.large", "on-demand", stays) + deploymentYAML("drift", 1, "1", ""))
			l.waitForRunningPods("drift", 1)
			old := l.ready("drift", 1)[0]
			l.apply(classYAML("drift", "  tags: {team: drift}"))
			l.waitUntilGone(&old)
			l.ready("drift", 1)
		}},
		{"a replacement never joins", func(l *liveWorld) {
			l.apply(classYAML("rollback", "") + pool("rollback", "rollback", "m5.large", "on-demand", stays) + deploymentYAML("rollback", 1, "1", ""))
			l.waitForRunningPods("rollback", 1)
			old := l.ready("rollback", 1)[0]
			l.World.Nodes.Faults().Set("rollback", fakenode.Selector{NodePool: "rollback"}, fakenode.Fault{NeverJoin: true})
			l.apply(classYAML("rollback", "  tags: {team: rollback}"))
			next := l.claim("rollback", "replaces "+old.Name, func(c *karpv1.NodeClaim) bool {
				return c.Name != old.Name && condition.True(c.Status.Conditions, karpv1.ConditionLaunched)
			})
			l.backdateLaunch(next, 16*time.Minute)
			l.waitUntilGone(next)
		}},
		{"EC2 has no capacity", func(l *liveWorld) {
			l.callControlAPI(http.MethodPost, "ice", `{"capacityType":"on-demand","instanceType":"m6i.large"}`)
			l.apply(classYAML("scarce", "") + pool("scarce", "scarce", "m6i.large", "on-demand", stays) + deploymentYAML("scarce", 1, "1", ""))
			l.waitForEvent("InsufficientCapacityError")
		}},
		{"a launch is denied", func(l *liveWorld) {
			l.apply(classYAML("denied", ""))
			l.waitUntil("EC2NodeClass denied is ready", func() (bool, string) { // else its dry run meets the fault
				o := namedObject("karpenter.k8s.aws/v1", "EC2NodeClass", "denied")
				err := l.kube.Get(l.Context(), client.ObjectKeyFromObject(o), o)
				text, _ := json.Marshal(o.Object["status"])
				return err == nil && strings.Contains(string(text), `"status":"True","type":"Ready"`), string(text)
			})
			fault, err := json.Marshal(awsemu.Fault{Action: "ec2:CreateFleet", Text: "denied", Count: 1, Code: "UnauthorizedOperation", Message: "denied by a policy", Status: http.StatusForbidden})
			if err != nil {
				l.Fatal(err)
			}
			l.callControlAPI(http.MethodPost, "faults", string(fault))
			l.apply(pool("denied", "denied", "m5.large", "on-demand", stays) + deploymentYAML("denied", 1, "1", ""))
			l.waitForRunningPods("denied", 1)
		}},
		{"a pod fits nowhere, and one has a volume claim that is missing", func(l *liveWorld) {
			l.apply(classYAML("none", "") + pool("none", "none", "m5.large", "on-demand", stays) + deploymentYAML("none", 1, "200", "") +
				onPool("lost", "none", 1, "1", "      volumes: [{name: data, persistentVolumeClaim: {claimName: missing}}]"))
			l.waitForEvent("FailedScheduling")
		}},
		{"something keeps a node", func(l *liveWorld) {
			l.apply(classYAML("kept", "") + pool("kept", "kept", "m5.large", "on-demand", consolidates) + deploymentYAML("kept", 1, "100m", `annotations: {karpenter.sh/do-not-disrupt: "true"}`))
			l.waitForRunningPods("kept", 1)
			l.waitForEvent("DisruptionBlocked")
		}},
		{"a drain is blocked", func(l *liveWorld) {
			l.apply(classYAML("stuck", "") + pool("stuck", "stuck", "m5.large", "on-demand", stays) + deploymentYAML("stuck", 1, "1", "") + `
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: stuck, namespace: default}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: stuck}}}`)
			l.waitForRunningPods("stuck", 1)
			claim := l.ready("stuck", 1)[0]
			if err := l.kube.Delete(l.Context(), &claim); err != nil {
				l.Fatal(err)
			}
			l.claim("stuck", "waits for its pods", func(c *karpv1.NodeClaim) bool {
				drained := condition.Find(c.Status.Conditions, karpv1.ConditionDrained)
				return drained != nil && drained.Status == metav1.ConditionUnknown
			})
		}},
		{"a class is not ready", func(l *liveWorld) {
			l.apply(strings.Replace(classYAML("broken", ""), "[{tags: {karpenter.sh/discovery: sandbox}}]", "[{tags: {no: subnet}}]", 1) + pool("broken", "broken", "m5.large", "on-demand", stays))
			l.waitUntil("NodePool broken is not ready", func() (bool, string) {
				p := &karpv1.NodePool{}
				err := l.kube.Get(l.Context(), client.ObjectKey{Name: "broken"}, p)
				ready := condition.Find(p.Status.Conditions, karpv1.ConditionReady)
				return ready != nil && ready.Status == metav1.ConditionFalse, fmt.Sprint(err, p.Status.Conditions)
			})
		}},
	}
}

// daemon runs on every node, as a CNI plugin does.
const daemon = `
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
      - {name: pause, image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7", resources: {requests: {cpu: 50m, memory: 32Mi}}}`

// waitForEvent waits for an event of the controller.
func (l *liveWorld) waitForEvent(reason string) {
	l.Helper()
	l.waitUntil("event "+reason, func() (bool, string) {
		var list eventsv1.EventList
		err := l.kube.List(l.Context(), &list)
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == reason && e.ReportingController == "karpenter" {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d events, %v", len(list.Items), err)
	})
}

// backdateLaunch sets the launch of a claim back in time, so that a timeout of minutes comes at once.
func (l *liveWorld) backdateLaunch(claim *karpv1.NodeClaim, by time.Duration) {
	l.Helper()
	l.waitUntil("the launch of "+claim.Name+" is set back", func() (bool, string) {
		if err := l.kube.Get(l.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return false, err.Error()
		}
		before := claim.DeepCopy()
		for i := range claim.Status.Conditions {
			if c := &claim.Status.Conditions[i]; c.Type == karpv1.ConditionLaunched || c.Type == karpv1.ConditionRegistered {
				c.LastTransitionTime = metav1.NewTime(time.Now().Add(-by))
			}
		}
		err := l.kube.Status().Patch(l.Context(), claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return err == nil, fmt.Sprint(err)
	})
}
