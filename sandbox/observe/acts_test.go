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

// class is a node class like that of the seeds (S-080); more is what else its spec has.
func class(name, more string) string {
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

// deployment is like inflate (S-078), on nodes of the NodePool of the same name; more is what else its pods have.
func deployment(name string, replicas int, cpu, more string) string {
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
%[5]s`, name, pool, replicas, cpu, spec(more), metadata(more))
}

// What more of a pod is may be a field of its spec or of its metadata.
func spec(more string) string {
	if strings.HasPrefix(more, "annotations") {
		return ""
	}
	return more
}

func metadata(more string) string {
	if strings.HasPrefix(more, "annotations") {
		return ", " + more
	}
	return ""
}

// act is something that happens in the cluster, to a NodePool of its own.
type act struct {
	name string
	run  func(*living)
}

// acts run side by side.
func acts() []act {
	return []act{
		{"pods get nodes", func(l *living) {
			l.apply(class("steady", "") + pool("steady", "steady", "m5.xlarge", "on-demand", stays) + deployment("steady", 3, "1", "") + daemon)
			l.running("steady", 3)
		}},
		{"a spot instance is interrupted", func(l *living) {
			l.apply(class("spot", "") + pool("spot", "spot", "m5.large, m5a.large", "spot", stays) + deployment("spot", 1, "1", ""))
			l.running("spot", 1)
			claim := l.ready("spot", 1)[0]
			id := claim.Status.ProviderID[strings.LastIndex(claim.Status.ProviderID, "/")+1:]
			l.steer(http.MethodPost, "interrupt", fmt.Sprintf(`{"instance":%q,"notice":"60s"}`, id))
			l.gone(&claim)
			l.running("spot", 1)
		}},
		{"empty nodes are removed", func(l *living) {
			l.apply(class("empty", "") + pool("empty", "empty", "m5.large", "on-demand", consolidates) + deployment("empty", 0, "1", ""))
			// A rate needs a series that goes on after it was scraped. The end of an instance is not measured if it is over
			// before the controller looks.
			for rounds, measured := 1.0, 0.0; measured < 2; rounds++ {
				if rounds > 10 {
					l.Fatalf("the end of instances was measured %v times", measured)
				}
				l.scale("empty", 1)
				l.running("empty", 1)
				claim := l.ready("empty", 1)[0]
				l.scale("empty", 0)
				l.gone(&claim)
				l.await("Prometheus knows that the node is gone", func() (bool, string) {
					n := l.latest(`sum(karpenter_nodeclaims_terminated_total{nodepool="empty"})`)
					return n >= rounds, fmt.Sprint(n)
				})
				measured = l.latest(`karpenter_nodeclaims_instance_termination_duration_seconds_count{nodepool="empty"}`)
			}
		}},
		{"a node that is too large is replaced", func(l *living) {
			l.apply(class("swap", "") + deployment("swap", 1, "500m", "") + onPool("swap-large", "swap", 1, "6", ""))
			l.unscheduled("swap", 1)
			l.unscheduled("swap-large", 1)
			l.apply(pool("swap", "swap", "m5.large, m5.2xlarge", "on-demand", stays))
			l.running("swap", 1)
			old := l.ready("swap", 1)[0]
			l.scale("swap-large", 0)
			l.running("swap-large", 0)
			l.apply(pool("swap", "swap", "m5.large, m5.2xlarge", "on-demand", consolidates))
			l.gone(&old)
			l.ready("swap", 1)
		}},
		{"a node drifts", func(l *living) {
			l.apply(class("drift", "") + pool("drift", "drift", "m5.large", "on-demand", stays) + deployment("drift", 1, "1", ""))
			l.running("drift", 1)
			old := l.ready("drift", 1)[0]
			l.apply(class("drift", "  tags: {team: drift}"))
			l.gone(&old)
			l.ready("drift", 1)
		}},
		{"a replacement never joins", func(l *living) {
			l.apply(class("rollback", "") + pool("rollback", "rollback", "m5.large", "on-demand", stays) + deployment("rollback", 1, "1", ""))
			l.running("rollback", 1)
			old := l.ready("rollback", 1)[0]
			l.World.Nodes.Faults().Set("rollback", fakenode.Selector{NodePool: "rollback"}, fakenode.Fault{NeverJoin: true})
			l.apply(class("rollback", "  tags: {team: rollback}"))
			next := l.claim("rollback", "replaces "+old.Name, func(c *karpv1.NodeClaim) bool {
				return c.Name != old.Name && condition.True(c.Status.Conditions, karpv1.ConditionLaunched)
			})
			l.age(next, 16*time.Minute)
			l.gone(next)
		}},
		{"EC2 has no capacity", func(l *living) {
			l.steer(http.MethodPost, "ice", `{"capacityType":"on-demand","instanceType":"m6i.large"}`)
			l.apply(class("scarce", "") + pool("scarce", "scarce", "m6i.large", "on-demand", stays) + deployment("scarce", 1, "1", ""))
			l.told("InsufficientCapacityError")
		}},
		{"a launch is denied", func(l *living) {
			l.apply(class("denied", ""))
			l.await("EC2NodeClass denied is ready", func() (bool, string) { // else its dry run meets the fault
				o := object("karpenter.k8s.aws/v1", "EC2NodeClass", "denied")
				err := l.kube.Get(l.Context(), client.ObjectKeyFromObject(o), o)
				text, _ := json.Marshal(o.Object["status"])
				return err == nil && strings.Contains(string(text), `"status":"True","type":"Ready"`), string(text)
			})
			fault, err := json.Marshal(awsemu.Fault{Action: "ec2:CreateFleet", Text: "denied", Count: 1, Code: "UnauthorizedOperation", Message: "denied by a policy", Status: http.StatusForbidden})
			if err != nil {
				l.Fatal(err)
			}
			l.steer(http.MethodPost, "faults", string(fault))
			l.apply(pool("denied", "denied", "m5.large", "on-demand", stays) + deployment("denied", 1, "1", ""))
			l.running("denied", 1)
		}},
		{"a pod fits nowhere, and one has a volume claim that is missing", func(l *living) {
			l.apply(class("none", "") + pool("none", "none", "m5.large", "on-demand", stays) + deployment("none", 1, "200", "") +
				onPool("lost", "none", 1, "1", "      volumes: [{name: data, persistentVolumeClaim: {claimName: missing}}]"))
			l.told("FailedScheduling")
		}},
		{"something keeps a node", func(l *living) {
			l.apply(class("kept", "") + pool("kept", "kept", "m5.large", "on-demand", consolidates) + deployment("kept", 1, "100m", `annotations: {karpenter.sh/do-not-disrupt: "true"}`))
			l.running("kept", 1)
			l.told("DisruptionBlocked")
		}},
		{"a drain is blocked", func(l *living) {
			l.apply(class("stuck", "") + pool("stuck", "stuck", "m5.large", "on-demand", stays) + deployment("stuck", 1, "1", "") + `
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: stuck, namespace: default}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: stuck}}}`)
			l.running("stuck", 1)
			claim := l.ready("stuck", 1)[0]
			if err := l.kube.Delete(l.Context(), &claim); err != nil {
				l.Fatal(err)
			}
			l.claim("stuck", "waits for its pods", func(c *karpv1.NodeClaim) bool {
				drained := condition.Find(c.Status.Conditions, karpv1.ConditionDrained)
				return drained != nil && drained.Status == metav1.ConditionUnknown
			})
		}},
		{"a class is not ready", func(l *living) {
			l.apply(strings.Replace(class("broken", ""), "[{tags: {karpenter.sh/discovery: sandbox}}]", "[{tags: {no: subnet}}]", 1) + pool("broken", "broken", "m5.large", "on-demand", stays))
			l.await("NodePool broken is not ready", func() (bool, string) {
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

// told waits for an event of the controller.
func (l *living) told(reason string) {
	l.Helper()
	l.await("event "+reason, func() (bool, string) {
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

// age sets the launch of a claim back in time, so that a timeout of minutes comes at once.
func (l *living) age(claim *karpv1.NodeClaim, by time.Duration) {
	l.Helper()
	l.await("the launch of "+claim.Name+" is set back", func() (bool, string) {
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
