package rights_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/rights"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// spread has the controller look at everything that default spread does.
const spread = `--scheduler-config={"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]}}`

// chartRights are the rights of the chart that a test is about.
func chartRights(about func(rights.Right) bool) []rights.Right {
	return slices.DeleteFunc(rights.All(), func(r rights.Right) bool { return !about(r) })
}

// findRight finds one of them.
func findRight(t *testing.T, group, resource, verb string) rights.Right {
	t.Helper()
	found := chartRights(func(r rights.Right) bool {
		return r.Group == group && r.Resource == resource && slices.Contains(r.Verbs, verb)
	})
	if len(found) != 1 {
		t.Fatalf("%d rights to %s %s", len(found), verb, resource)
	}
	return found[0]
}

// S-116: without a right to read, nothing is planned. The log and readiness name the rule, and the controller goes on by
// itself once it is there. No pool exists, so that many controllers may run side by side.
func TestS_116_WithoutARightToRead(t *testing.T) {
	for i, r := range chartRights(func(r rights.Right) bool { return r.Vital && r.Role != rights.Release }) {
		t.Run(r.Resource, func(t *testing.T) {
			t.Parallel()
			s := beginSubject(t, world.Installation{ServiceAccount: fmt.Sprintf("reader-%d", i)}, []rights.Right{r}, world.ControllerOptions{Flags: []string{spread}})
			s.waitForWarning(r)
			s.ready("rights", r.Rule())
			s.grantRights(r)
			s.ready("rights", "")
			s.ready("caches", "")
		})
	}
}

// S-116: without a right to the lease no replica leads, and that is said likewise.
func TestS_116_WithoutARightToTheLease(t *testing.T) {
	for i, r := range chartRights(func(r rights.Right) bool { return r.Vital && r.Role == rights.Release }) {
		t.Run(strings.Join(r.Verbs, " "), func(t *testing.T) {
			t.Parallel()
			namespace := server.Namespace(t)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: namespace}}
			if r.Name != "" { // one that another test left behind, so that it has to be changed
				lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("gone"), LeaseDurationSeconds: new(int32(1)), RenewTime: new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))}
				if err := kube.Create(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			s := beginSubject(t, world.Installation{Namespace: namespace, ServiceAccount: fmt.Sprintf("leader-%d", i)}, []rights.Right{r}, world.ControllerOptions{LeaderElection: true})
			s.waitForWarning(r)
			s.ready("rights", r.Rule())
			s.grantRights(r)
			s.ready("rights", "")
			s.waitUntil(func() string {
				if err := kube.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
					return err.Error()
				}
				if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "gone" {
					return "no process leads"
				}
				return ""
			})
		})
	}
}

// createClass, pool and pod are what a node needs.
func (s *subject) createClass(name string) *awsv1.EC2NodeClass {
	s.Helper()
	c := &awsv1.EC2NodeClass{}
	s.createFromYAML(c, `
metadata: {name: `+name+`}
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
`)
	return c
}

func (s *subject) pool(name, class, template string) *karpv1.NodePool {
	s.Helper()
	p := &karpv1.NodePool{}
	s.createFromYAML(p, `
metadata: {name: `+name+`}
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: `+class+`}
      `+template+`
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s}
`)
	return p
}

func (s *subject) pod(name, pool, metadata string) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{}
	s.createFromYAML(p, `
metadata: {name: `+name+`, namespace: default, `+metadata+`}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {karpenter.sh/nodepool: `+pool+`}
  containers: [{name: c, image: pause, resources: {requests: {cpu: 100m}}}]
`)
	return p
}

// claim waits for the NodeClaim of a pool.
func (s *subject) claim(pool string) *karpv1.NodeClaim {
	s.Helper()
	list := &karpv1.NodeClaimList{}
	s.waitUntil(func() string {
		if err := kube.List(s.Context(), list, client.MatchingLabels{karpv1.LabelNodePool: pool}); err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 {
			return fmt.Sprintf("%d claims of %s", len(list.Items), pool)
		}
		return ""
	})
	return &list.Items[0]
}

// waitForRunningPod waits until a pod runs, and returns its node.
func (s *subject) waitForRunningPod(p *corev1.Pod) *corev1.Node {
	s.Helper()
	s.waitUntil(func() string {
		if err := kube.Get(s.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("pod %s is %s: %v", p.Name, p.Status.Phase, err)
		}
		return ""
	})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}}
}

// event waits for one on an object.
func (s *subject) event(obj client.Object, reason string, texts ...string) {
	s.Helper()
	s.waitUntil(func() string {
		if !s.hasEvent(obj, reason, texts...) {
			return fmt.Sprintf("no event %s of %s says %q", reason, obj.GetName(), texts)
		}
		return ""
	})
}

// hasEvent reports whether one of the controller's events has all texts.
func (s *subject) hasEvent(obj client.Object, reason string, texts ...string) bool {
	s.Helper()
	list := &corev1.EventList{}
	if err := kube.List(s.Context(), list); err != nil {
		s.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		ours := e.InvolvedObject.Name == obj.GetName() && e.Reason == reason && e.Source.Component == "karpenter"
		return ours && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Message, text) })
	})
}

// isReady waits for the condition.
func (s *subject) isReady(obj client.Object, conditions func() []metav1.Condition) {
	s.Helper()
	s.waitUntil(func() string {
		if err := kube.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err.Error()
		}
		if !condition.True(conditions(), karpv1.ConditionReady) {
			return fmt.Sprintf("%s is not ready: %v", obj.GetName(), conditions())
		}
		return ""
	})
}

// S-116: every right to write is removed when it is needed next. The log names it with the rule; what users see of
// their objects is looked at where anything is to be seen. Once it is back, work goes on where it stopped. The controller
// never has the rights that are said to be unused, and does all of its work.
func TestS_116_WithoutARightToWrite(t *testing.T) {
	unused := chartRights(func(r rights.Right) bool { return r.Unused && r.Value == "" })
	dns := findRight(t, "", "services", "get")
	s := beginSubject(t, world.Installation{ServiceAccount: "writer"}, append(slices.Clone(unused), dns), world.ControllerOptions{})
	tried := append(slices.Clone(unused), dns, findRight(t, "apps", "deployments", "list")) // the last one where a lease is looked for
	s.waitForWarning(dns)
	read, used := overlayAndBufferRights(t) // tried by tests of their own
	tried = slices.Concat(tried, read, used)
	// missed takes rights away before something happens. They are missed one after the other, and each is given back then.
	missed := func(what func(), list ...rights.Right) {
		t.Helper()
		for _, r := range list {
			t.Log("without", r.Rule())
		}
		tried = append(tried, list...)
		s.revokeRights(list...)
		what()
		for _, r := range list {
			s.waitForWarning(r)
			s.grantRights(r)
		}
	}

	var class *awsv1.EC2NodeClass
	missed(func() { class = s.createClass("rights") }, findRight(t, "karpenter.k8s.aws", "ec2nodeclasses", "patch"), findRight(t, "karpenter.k8s.aws", "ec2nodeclasses/status", "patch"))
	s.isReady(class, func() []metav1.Condition { return class.Status.Conditions })

	var pool *karpv1.NodePool
	missed(func() { pool = s.pool("works", "rights", "") }, findRight(t, "karpenter.sh", "nodepools", "patch"), findRight(t, "karpenter.sh", "nodepools/status", "patch"))
	s.isReady(pool, func() []metav1.Condition { return pool.Status.Conditions })
	if pool.Annotations[karpv1.AnnotationNodePoolHash] == "" {
		t.Errorf("the pool has no hash: %v", pool.Annotations)
	}

	denied := s.pool("denied", "rights", "") // one of its own: it is left alone for a minute afterwards
	s.isReady(denied, func() []metav1.Condition { return denied.Status.Conditions })
	missed(func() {
		pod := s.pod("denied", "denied", "")
		s.event(pod, "FailedScheduling", "denied")
		s.remove(pod)
		s.waitUntilGone(pod)
	}, findRight(t, "karpenter.sh", "nodeclaims", "create"))

	var pod *corev1.Pod
	missed(func() { pod = s.pod("first", "works", "") }, findRight(t, "", "events", "create"), findRight(t, "karpenter.sh", "nodeclaims", "patch"), findRight(t, "karpenter.sh", "nodeclaims/status", "patch"), findRight(t, "", "nodes", "patch"))
	node := s.waitForRunningPod(pod)

	repeats := findRight(t, "", "events", "patch")
	missed(func() { s.flipNodeCondition(repeats) }, repeats)

	claim := s.claim("works")
	eviction := findRight(t, "", "pods/eviction", "create")
	s.revokeRights(eviction) // before the Node may be deleted: its pods are evicted right then
	missed(func() { s.remove(claim) }, findRight(t, "", "nodes", "delete"))
	missed(func() { s.event(node, "FailedDraining", "first", "cannot create resource") }, eviction)
	s.waitUntilGone(claim)

	pod = s.pod("second", "works", "")
	s.waitForRunningPod(pod)
	claim = s.claim("works")
	missed(func() { s.remove(pod) }, findRight(t, "karpenter.sh", "nodeclaims", "delete"))
	s.waitUntilGone(claim)

	s.pool("deadline", "rights", "terminationGracePeriod: 1s")
	pod = s.pod("third", "deadline", "annotations: {karpenter.sh/do-not-disrupt: \"true\"}")
	node = s.waitForRunningPod(pod)
	claim = s.claim("deadline")
	missed(func() {
		s.remove(claim)
		s.event(node, "FailedDraining", "third", "cannot delete resource")
	}, findRight(t, "", "pods", "delete"))
	s.waitUntilGone(claim)

	for _, r := range chartRights(func(r rights.Right) bool { return r.Value == "" && !r.Vital }) {
		if !slices.ContainsFunc(tried, func(x rights.Right) bool { return x.Role == r.Role && x.Rule() == r.Rule() }) {
			t.Errorf("no test covers what happens without %s", r.Rule())
		}
	}
}

// flipNodeCondition has a condition of a Node change back and forth, each time for another reason, until its events are so many that
// they are counted in one, which is a patch.
func (s *subject) flipNodeCondition(missing rights.Right) {
	s.Helper()
	const name, most = "Flips", 20 // below what a recorder writes of one object
	nodes := &corev1.NodeList{}
	if err := kube.List(s.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		s.Fatal(len(nodes.Items), err)
	}
	node := &nodes.Items[slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Labels[karpv1.LabelNodePool] == "" })]
	for i := range most {
		status, because, now := corev1.ConditionFalse, fmt.Sprintf("Flip%d", i), metav1.Now()
		if i%2 == 1 {
			status = corev1.ConditionTrue
		}
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":%q,"lastTransitionTime":%q,"lastHeartbeatTime":%q}]}}`,
			name, status, because, now.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		if err := kube.Status().Patch(s.Context(), node, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
			s.Fatal(err)
		}
		reported := false
		s.waitUntil(func() string {
			if reported = s.names(missing); reported || s.hasEvent(node, name, because) {
				return ""
			}
			return "no event tells of " + because
		})
		if reported {
			return
		}
	}
}
