package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// The releases of Karpenter that a cluster may come from, and one of their pools each.
const (
	// Full nodes of one type; the window of consolidation is shorter than the test waits.
	generalPool = `
template:
  metadata: {labels: {team: shop}}
  spec:
    requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s, budgets: [{nodes: 100%}]}
limits: {cpu: 100}`
	batchPool = `
template:
  spec:
    requirements:
    - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c5]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
    taints: [{key: workload, value: batch, effect: NoSchedule}]
disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5s, budgets: [{nodes: 100%}]}`
	// Karpenter found its node to have drifted, and may not replace it now.
	frozenPool = `
template:
  spec:
    requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: "0"}]}`
)

// workloadYAML fills a node of a pool with one pod each.
func workloadYAML(name, pool string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: %[2]s}
      tolerations: [{key: workload, operator: Exists}]
      containers:
      - {name: pause, image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7", resources: {requests: {cpu: 1200m, memory: 512Mi}}}
`, name, pool, replicas)
}

// apply is kubectl apply.
func apply(t *testing.T, manifest string) {
	t.Helper()
	runLine(t, "kubectl apply -f - <<'EOF'\n"+manifest+"\nEOF")
}

// waitForRunningPods waits until so many pods of a Deployment run, and no other.
func waitForRunningPods(t *testing.T, app string, n int) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("%d pods of %s run", n, app), func() (bool, string) {
		up, all := 0, list(t, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": app}).Items
		for _, p := range all {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				up++
			}
		}
		return up == n && len(all) == n, fmt.Sprintf("%d of %d", up, len(all))
	})
}

// takeoverRun is the cluster on its way from one controller to the other and back.
type takeoverRun struct {
	karpenter *karpenter
	claims    map[string]*karpv1.NodeClaim
	lease     *holders
	calls     *calls
	was       state
}

// TestTakeOver is decision 1: a user swaps the controller in place with helm upgrade and back, and no node is replaced by
// the swap (install.md 1, 5 and 13; FM C09, FM C10, FM C11, FM C15, LC-59, LC-60, LC-61).
func TestTakeOver(t *testing.T) {
	s := &takeoverRun{karpenter: freshCluster(t), lease: followLease(t)}
	runSteps(t, []step{
		{"a release laid out like Karpenter's", s.releaseOfKarpenter},
		{"what Karpenter leaves", s.checkLeftovers},
		{"dovetail about a cluster of Karpenter", s.runOnKarpenter},
		{"Helm takes the CRDs over", s.checkCRDs},
		{"C15: --reuse-values keeps the image, and is refused", s.reuseValues},
		{"C11: the new pods wait for the lease, and take over", s.swap},
		{"C09: hashes are stamped anew, and what was under way is finished", s.checkAdopted},
		{"EX-35: dovetail queries the new leader", s.runOnDovetail},
		{"C09: an hour in which nothing happens", s.passAnHour},
		{"a pod gets a node", s.newNode},
		{"C10: helm rollback gives back", s.rollBack},
		{"forward again", s.installAgain},
		{"C10: helm upgrade to the chart of Karpenter gives back", s.upgradeBack},
		{"and once more", s.installAgain},
	})
}

func (s *takeoverRun) releaseOfKarpenter(t *testing.T) {
	t.Helper()
	out := runLine(t, "helm install karpenter reference/karpenter -n $NAMESPACE --set settings.clusterName=$CLUSTER_NAME,settings.interruptionQueue=$INTERRUPTION_QUEUE --set controller.resources.requests.cpu=100m --wait")
	if !strings.Contains(out, "STATUS: deployed") {
		t.Error(out)
	}
	waitForLeader(t, "the one that was there before", isPredecessor)
}

func (s *takeoverRun) checkLeftovers(t *testing.T) {
	t.Helper()
	k := s.karpenter.forTest(t)
	s.claims = map[string]*karpv1.NodeClaim{}
	newest, oldest := release{poolHash: "v3", classHash: "v6"}, release{poolHash: "v3", classHash: "v3", legacyProfile: true}
	current, old := k.createClass("default", newest), k.createClass("old", oldest)
	general, batch, frozen := k.pool("general", "default", newest, generalPool), k.pool("batch", "old", oldest, batchPool), k.pool("frozen", "default", newest, frozenPool)
	onDemand := k.createTemplate("13894205219398345687", general, current, "on-demand")
	spot := k.createTemplate("9215437712938475610", batch, old, "spot")
	iced := k.createTemplate("2938475610921543771", frozen, current, "on-demand")
	add := func(pool *karpv1.NodePool, class *awsv1.EC2NodeClass, m machine) {
		s.claims[m.name] = k.claim(pool, class, m)
	}
	add(general, current, machine{name: "plain", instanceType: "m5.large", capacityType: "on-demand", template: onDemand, joined: true})
	add(general, current, machine{name: "oldhash", instanceType: "m5.large", capacityType: "on-demand", template: onDemand, joined: true, change: func(c *karpv1.NodeClaim) {
		// Of a release before: other versions, and so other hashes.
		maps.Copy(c.Annotations, map[string]string{
			"karpenter.sh/nodepool-hash": "11", "karpenter.sh/nodepool-hash-version": "v2", "karpenter.k8s.aws/ec2nodeclass-hash": "12", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
		})
	}})
	add(batch, old, machine{name: "nohash", instanceType: "c5.large", capacityType: "spot", template: spot, joined: true, change: func(c *karpv1.NodeClaim) {
		for _, key := range []string{"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version", "karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version"} {
			delete(c.Annotations, key)
		}
	}})
	add(frozen, current, machine{name: "drifted", instanceType: "m5.large", capacityType: "on-demand", template: iced, joined: true, drift: "NodePoolDrifted", change: func(c *karpv1.NodeClaim) {
		c.Annotations["karpenter.sh/nodepool-hash"] = "13"
	}})
	add(frozen, current, machine{name: "leaving", instanceType: "m5.large", capacityType: "on-demand", template: iced, joined: true})
	add(frozen, current, machine{name: "launched", instanceType: "m5.large", capacityType: "on-demand", template: iced})
	apply(t, workloadYAML("general", "general", 2)+"---"+workloadYAML("batch", "batch", 1)+"---"+workloadYAML("frozen", "frozen", 1))
	waitForRunningPods(t, "general", 2)
	waitForRunningPods(t, "batch", 1)
	waitForRunningPods(t, "frozen", 1)
	// Those of another owner, which only look alike.
	if _, err := k.ec2.CreateLaunchTemplate(t.Context(), foreignTemplate()); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), s.claims["leaving"]); err != nil {
		t.Fatal(err)
	}
	backdateObjects(t, 2*time.Hour)
	s.was = s.state(t)
}

func (s *takeoverRun) checkCRDs(t *testing.T) {
	t.Helper()
	if out := runFailingLine(t, "helm upgrade --install karpenter-crd $CHARTS/karpenter-crd -n $NAMESPACE"); !strings.Contains(out, "invalid ownership metadata") {
		t.Error(out)
	}
	runLine(t, `kubectl label crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws nodeoverlays.karpenter.sh capacitybuffers.autoscaling.x-k8s.io app.kubernetes.io/managed-by=Helm --overwrite
kubectl annotate crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws nodeoverlays.karpenter.sh capacitybuffers.autoscaling.x-k8s.io --overwrite \
  meta.helm.sh/release-name=karpenter-crd meta.helm.sh/release-namespace="$NAMESPACE"
helm upgrade --install karpenter-crd $CHARTS/karpenter-crd -n $NAMESPACE`)
}

// reuseValues is the hazard of install.md 1: users' values and the old defaults are one for Helm then.
func (s *takeoverRun) reuseValues(t *testing.T) {
	t.Helper()
	out := runFailingLine(t, "helm upgrade karpenter $CHARTS/karpenter -n $NAMESPACE --reuse-values")
	if !strings.Contains(out, "--reuse-values has kept it") || !strings.Contains(out, "--reset-then-reuse-values") {
		t.Errorf("the fix is not named:\n%s", out)
	}
	if now := leaseHolder(t, namespace); !isPredecessor(now) {
		t.Errorf("%s leads after an upgrade that was refused", now)
	}
}

const swapCommand = `helm upgrade karpenter $CHARTS/karpenter -n $NAMESPACE --reset-then-reuse-values \
  --set controller.image.repository=ghcr.io/dovetail-sh/dovetail --set controller.image.tag= --set controller.image.digest= --wait`

func (s *takeoverRun) swap(t *testing.T) {
	t.Helper()
	s.calls = recordCalls(t)
	runLine(t, swapCommand)
	waitForLeader(t, "Dovetail", isDovetail)
	if values := runLine(t, "helm get values karpenter -n $NAMESPACE"); !strings.Contains(values, "clusterName: sandbox") || !strings.Contains(values, "cpu: 100m") {
		t.Errorf("values of the user are lost:\n%s", values)
	}
	s.handedOver(t)
}

// handedOver looks at who led until now: predecessors and then Dovetail, or the other way round, each of whom gave the
// lease back before the next one took it.
func (s *takeoverRun) handedOver(t *testing.T) {
	t.Helper()
	s.lease.handedOver(t)
}

func (s *takeoverRun) checkAdopted(t *testing.T) {
	t.Helper()
	stamped := map[string]string{karpv1.AnnotationNodePoolHashVersion: drift.PoolHashVersion, awsv1.AnnotationNodeClassHashVersion: classhash.Version}
	waitUntil(t, "all claims, pools and classes carry hashes of Dovetail", func() (bool, string) {
		for _, c := range list(t, &karpv1.NodeClaimList{}).Items {
			for key, want := range stamped {
				if c.DeletionTimestamp == nil && c.Annotations[key] != want {
					return false, c.Name + " has " + c.Annotations[key]
				}
			}
		}
		for _, p := range list(t, &karpv1.NodePoolList{}).Items {
			if p.Annotations[karpv1.AnnotationNodePoolHashVersion] != drift.PoolHashVersion {
				return false, p.Name
			}
		}
		for _, c := range list(t, &awsv1.EC2NodeClassList{}).Items {
			if c.Annotations[awsv1.AnnotationNodeClassHashVersion] != classhash.Version {
				return false, c.Name
			}
		}
		return true, ""
	})
	waitUntil(t, "the claim that was being deleted is gone, its node and instance too", func() (bool, string) {
		now := s.state(t)
		id := instanceOf(s.claims["leaving"])
		return now.claims["frozen-leaving"] == "" && now.nodes[s.claims["leaving"].Status.NodeName] == "" && now.instances[id] == "terminated", fmt.Sprint(now)
	})
	waitUntil(t, "the claim that was launched is ready", func() (bool, string) {
		c := &karpv1.NodeClaim{}
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(s.claims["launched"]), c); err != nil {
			return false, err.Error()
		}
		return condition.True(c.Status.Conditions, karpv1.ConditionReady), fmt.Sprint(c.Status.Conditions)
	})
	drifted := &karpv1.NodeClaim{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(s.claims["drifted"]), drifted); err != nil {
		t.Fatal(err)
	}
	if !condition.True(drifted.Status.Conditions, karpv1.ConditionDrifted) || drifted.Annotations[karpv1.AnnotationNodePoolHash] != "13" {
		t.Errorf("what Karpenter found to have drifted is dropped: %v %v", drifted.Annotations, drifted.Status.Conditions)
	}
	s.was = s.state(t)
}

// passAnHour makes everything an hour older and the leader a new one, which begins all its rounds: instances, profiles and
// claims are collected, drift and consolidation are looked at. Nothing comes of it.
func (s *takeoverRun) passAnHour(t *testing.T) {
	t.Helper()
	backdateObjects(t, time.Hour)
	leader := waitForLeader(t, "Dovetail", isDovetail)
	runLine(t, "kubectl delete pod -n $NAMESPACE -l app.kubernetes.io/name=karpenter")
	next := waitForLeader(t, "another process", func(holder string) bool { return isDovetail(holder) && holder != leader })
	checkStays(t, 45*time.Second, "all nodes, and nothing else", func() (bool, string) {
		diff := cmp.Diff(s.was, s.state(t), cmp.AllowUnexported(state{}))
		return diff == "", "(-before +now)\n" + diff
	})
	if now := waitForLeader(t, "Dovetail", isDovetail); now != next {
		t.Errorf("%s leads, and %s did a moment ago", now, next)
	}
	s.calls.check(t, instanceOf(s.claims["leaving"]))
	s.handedOver(t)
	if left := s.karpenter.forTest(t).templateNames(); !slices.Contains(left, "mine") {
		t.Errorf("a launch template of another cluster was deleted: %v are left", left)
	}
}

func (s *takeoverRun) newNode(t *testing.T) {
	t.Helper()
	runLine(t, "kubectl scale deployment general --replicas=3")
	waitForRunningPods(t, "general", 3)
	now := s.state(t)
	if len(now.claims) != len(s.was.claims)+1 || len(now.profiles) != len(s.was.profiles) {
		t.Errorf("before %v, now %v", s.was, now)
	}
	for name := range s.was.claims {
		if now.claims[name] != s.was.claims[name] {
			t.Errorf("%s was replaced", name)
		}
	}
	s.was = now
}

func (s *takeoverRun) rollBack(t *testing.T) {
	t.Helper()
	out := runLine(t, "helm rollback karpenter 1 -n $NAMESPACE --wait")
	if !strings.Contains(out, "Rollback was a success") {
		t.Error(out)
	}
	s.givenBack(t)
}

func (s *takeoverRun) upgradeBack(t *testing.T) {
	t.Helper()
	runLine(t, `helm upgrade karpenter reference/karpenter -n $NAMESPACE --reset-then-reuse-values \
  --set controller.image.repository=public.ecr.aws/karpenter/controller --set controller.image.tag= --set controller.image.digest= --wait`)
	s.givenBack(t)
}

// givenBack looks at what the other controller finds: the lease, all objects, and in a form that it reads.
func (s *takeoverRun) givenBack(t *testing.T) {
	t.Helper()
	waitForLeader(t, "the one that was there before", isPredecessor)
	waitUntil(t, "no pod of Dovetail is left", func() (bool, string) {
		pods := list(t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}).Items
		return len(pods) == 2 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Spec.Containers[0].Image, before) }), fmt.Sprint(len(pods))
	})
	if diff := cmp.Diff(s.was, s.state(t), cmp.AllowUnexported(state{})); diff != "" {
		t.Errorf("the way back changed (-before +now):\n%s", diff)
	}
	s.handedOver(t)
	checkStrictForms(t)
}

func (s *takeoverRun) installAgain(t *testing.T) {
	t.Helper()
	runLine(t, swapCommand)
	waitForLeader(t, "Dovetail", isDovetail)
	s.handedOver(t)
	checkStays(t, 15*time.Second, "all nodes, and nothing else", func() (bool, string) {
		diff := cmp.Diff(s.was, s.state(t), cmp.AllowUnexported(state{}))
		return diff == "", "(-before +now)\n" + diff
	})
}

// checkStrictForms fails if an object is of a form that only Dovetail reads: Karpenter serves v1 alone, and reads it strictly.
func checkStrictForms(t *testing.T) {
	t.Helper()
	for _, p := range list(t, &karpv1.NodePoolList{}).Items {
		if _, notes := p.Effective(true); len(notes) > 0 {
			t.Errorf("NodePool %s: %v", p.Name, notes)
		}
	}
	fields := []string{"expireAfter", "nodeClassRef", "requirements", "resources", "startupTaints", "taints", "terminationGracePeriod"}
	for _, c := range list(t, &karpv1.NodeClaimList{}).Items {
		if _, notes := c.Effective(nil, true); len(notes) > 0 {
			t.Errorf("NodeClaim %s: %v", c.Name, notes)
		}
		if c.APIVersion != "" && c.APIVersion != "karpenter.sh/v1" {
			t.Errorf("NodeClaim %s is of %s", c.Name, c.APIVersion)
		}
		text, err := yaml.Marshal(c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		tree := map[string]any{}
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		for field := range tree {
			if !slices.Contains(fields, field) {
				t.Errorf("NodeClaim %s has spec.%s, which is no field of strict v1", c.Name, field)
			}
		}
	}
	for _, c := range list(t, &awsv1.EC2NodeClassList{}).Items {
		if _, notes := c.Effective(awsv1.Facts{Strict: true, ClusterName: "sandbox"}); len(notes) > 0 {
			t.Errorf("EC2NodeClass %s: %v", c.Name, notes)
		}
	}
}

// state is what a swap must not change, each by name.
type state struct {
	claims, nodes, pools, instances map[string]string
	profiles                        []string
}

func (s *takeoverRun) state(t *testing.T) state {
	t.Helper()
	now := readState(t)
	now.profiles = s.karpenter.forTest(t).profileNames()
	return now
}

// readState reads the state but for profiles.
func readState(t *testing.T) state {
	t.Helper()
	now := state{claims: map[string]string{}, nodes: map[string]string{}, pools: map[string]string{}, instances: map[string]string{}}
	for _, c := range list(t, &karpv1.NodeClaimList{}).Items {
		now.claims[c.Name] = fmt.Sprint(c.UID, " ", c.Status.ProviderID, disruptionMarks(c.DeletionTimestamp, c.Status.Conditions))
	}
	for _, n := range list(t, &corev1.NodeList{}).Items {
		taints := ""
		for _, taint := range n.Spec.Taints {
			taints += " " + taint.Key
		}
		now.nodes[n.Name] = fmt.Sprint(n.UID, taints, disruptionMarks(n.DeletionTimestamp, nil))
	}
	for _, p := range list(t, &karpv1.NodePoolList{}).Items {
		now.pools[p.Name] = fmt.Sprint(p.UID, " ", p.Generation)
	}
	for _, i := range sandbox.AWS.Instances() {
		now.instances[i.ID] = i.State
	}
	return now
}

// disruptionMarks are what disruption leaves on an object.
func disruptionMarks(deleted *metav1.Time, conditions []metav1.Condition) string {
	text := ""
	if deleted != nil {
		text += " deleting"
	}
	for _, kind := range []string{karpv1.ConditionDrifted, karpv1.ConditionDisruptionReason} {
		if condition.True(conditions, kind) {
			text += " " + kind
		}
	}
	return text
}

func instanceOf(c *karpv1.NodeClaim) string {
	return c.Status.ProviderID[strings.LastIndex(c.Status.ProviderID, "/")+1:]
}

// calls are those to AWS that change something which a swap must not change.
type calls struct {
	list chan awsemu.Call
}

// recordCalls writes down calls until the world ends.
func recordCalls(t *testing.T) *calls {
	t.Helper()
	c := &calls{list: make(chan awsemu.Call, 1000)}
	forbidden := []string{"CreateFleet", "RunInstances", "TerminateInstances", "StopInstances", "RebootInstances", "CreateInstanceProfile", "DeleteInstanceProfile", "AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile", "DeleteTags"}
	sandbox.AWS.Watch(func(call awsemu.Call) {
		if call.Code == "" && slices.Contains(forbidden, call.Action) {
			select {
			case c.list <- call:
			default: // a thousand are enough to fail
			}
		}
	})
	return c
}

// check fails if there was such a call, but for the end of one instance.
func (c *calls) check(t *testing.T, ended string) {
	t.Helper()
	for {
		select {
		case call := <-c.list:
			if call.Action != "TerminateInstances" || !slices.Contains(slices.Collect(maps.Values(call.Parameters)), ended) {
				t.Errorf("%s:%s %v was called", call.Service, call.Action, call.Parameters)
			}
		default:
			return
		}
	}
}

// describe returns what there is to know about a test that failed.
func describe(t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"helm history karpenter -n $NAMESPACE", "kubectl get pods -A -o wide", "kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes -o wide",
		"kubectl get crd -o custom-columns='NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,CONDITIONS:.status.conditions[*].message'",
		"kubectl get events -A --sort-by=.lastTimestamp | tail -40", "kubectl logs -n $NAMESPACE -l app.kubernetes.io/name=karpenter --tail=60 --prefix",
	} {
		out, _ := tryLine(t, line)
		t.Logf("$ %s\n%s", line, out)
	}
}
