package provisioning_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// remove takes objects away.
func (l *fixture) remove(objects ...metav1.Object) {
	l.t.Helper()
	for _, obj := range objects {
		informer, err := l.feed.FakeInformerFor(l.t.Context(), obj.(client.Object))
		if err != nil {
			l.t.Fatal(err)
		}
		informer.Delete(obj)
	}
}

// join brings up the node of a claim that was launched.
func (l *fixture) join(claim *karpv1.NodeClaim, cpu string) *corev1.Node {
	l.t.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "ip-" + claim.Name, UID: "ip-" + claim.UID, Labels: map[string]string{karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/" + claim.Name},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	maps.Copy(node.Labels, claim.Labels)
	l.add(node)
	return node
}

// FM I01: the scheduler does not take the node that was made for a pod. No other is launched, however long
// that lasts; after three nomination periods the pod gets an event; once it is gone nothing keeps the node.
func TestFM_I01_SchedulerRejectsTheNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFixture(t)
		pod := controllertest.PendingPod("picky", "1")
		l.add(controllertest.ReadyPool("general"), pod)
		l.Pass(t.Context())
		l.launchAll()
		claim := l.claims()[0]
		node := l.join(&claim, "2")
		settled := claim.DeepCopy()
		settled.Status.ProviderID = node.Spec.ProviderID
		settled.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue}}
		l.add(settled)
		for range 6 {
			l.Pass(t.Context())
			time.Sleep(10 * time.Second)
		}
		if l.emitted.Saw("picky FailedScheduling") {
			t.Errorf("the pod was told within a minute, which a busy scheduler may need: %q", l.emitted.Said)
		}
		for range 30 {
			l.Pass(t.Context())
			time.Sleep(10 * time.Second)
		}
		if n := len(l.claims()); n != 1 {
			t.Errorf("%d claims after six minutes, want the one that was rejected", n)
		}
		if !l.emitted.Saw("picky FailedScheduling", "node/"+node.Name, "the scheduler did not put it there") {
			t.Errorf("the pod has no event: %q", l.emitted.Said[len(l.emitted.Said)-3:])
		}
		memory := l.Store.(*store.Store)
		removed := func() []disrupt.Command {
			types, _ := l.provider.Types(t.Context(), nil)
			return disrupt.Next(disrupt.View{DisruptionView: memory.Disruption(map[string][]catalog.InstanceType{"general": types})}, nil).Commands
		}
		if commands := removed(); len(commands) > 0 {
			t.Errorf("%v while the pod waits; its node would be launched again", commands)
		}
		l.remove(pod)
		l.Pass(t.Context())
		time.Sleep(l.Nomination)
		if commands := removed(); len(commands) != 1 || len(commands[0].Remove) != 1 || commands[0].Remove[0].Node != node.Name || len(commands[0].Create) > 0 {
			t.Errorf("%v when no pod waits for the node any more, want it removed as empty", commands)
		}
	})
}

// FM I01: a pod that comes after all is dropped.
func TestFM_I01_PodsThatCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFixture(t)
		l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("slow", "1"))
		l.Pass(t.Context())
		l.launchAll()
		claim := l.claims()[0]
		node := l.join(&claim, "2")
		l.Pass(t.Context())
		time.Sleep(50 * time.Second)
		bound := controllertest.PendingPod("slow", "1")
		bound.Spec.NodeName, bound.Status = node.Name, corev1.PodStatus{Phase: corev1.PodRunning}
		l.add(bound, controllertest.PendingPod("next", "500m"))
		time.Sleep(20 * time.Second)
		l.Pass(t.Context())
		if l.emitted.Saw("FailedScheduling") {
			t.Errorf("an event says that the scheduler rejects its node: %q", l.emitted.Said)
		}
	})
}

// FM I03: what is wrong with the volumes of a pod is reported on that pod; no node is launched for it, and the
// others are planned for.
func TestFM_I03_BrokenVolumes(t *testing.T) {
	t.Parallel()
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "data"}}
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		objects []metav1.Object
		want    string // in the event; empty: a node is launched
	}{
		"no claim":                   {want: "data"},
		"claim without a class":      {objects: []metav1.Object{claim(func(*corev1.PersistentVolumeClaim) {})}, want: "torage class"},
		"class that does not exist":  {objects: []metav1.Object{claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") })}, want: "fast"},
		"claim whose volume is lost": {objects: []metav1.Object{claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })}, want: "data"},
		"claim whose volume is gone": {
			objects: []metav1.Object{claim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName, c.Status.Phase = "vol-1", corev1.ClaimBound
				c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			})},
			want: "volume that is missing",
		},
		"an unknown provisioner: one node, and no more, since only the scheduler can tell": {
			objects: []metav1.Object{
				claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") }),
				&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", UID: "fast"}, Provisioner: "example.com/unheard-of", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			broken := controllertest.PendingPod("broken", "7")
			broken.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			l.add(controllertest.ReadyPool("general"), broken, controllertest.PendingPod("fine", "7"))
			l.add(tc.objects...)
			l.Pass(t.Context())
			l.Pass(t.Context())
			want := 1
			if tc.want == "" {
				want = 2
			}
			if n := len(l.claims()); n != want {
				t.Errorf("%d claims, want %d", n, want)
			}
			if !l.emitted.Saw("fine Nominated") {
				t.Errorf("the other pod has no node: %q", l.emitted.Said)
			}
			if tc.want != "" && !l.emitted.Saw("broken FailedScheduling", tc.want) {
				t.Errorf("no event of the pod says %s: %q", tc.want, l.emitted.Said)
			}
		})
	}
}

// FM I08: pods of a Node that the API server does not have are left out of the counts, and nothing else
// changes.
func TestFM_I08_PodsOfANodeThatIsMissing(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spread := func(name, node string) *corev1.Pod {
		p := controllertest.PendingPod(name, "1")
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
		if node != "" {
			p.Spec.NodeName, p.Status = node, corev1.PodStatus{Phase: corev1.PodRunning}
		}
		return p
	}
	l.add(controllertest.ReadyPool("general"), spread("lost-1", "ip-gone"), spread("lost-2", "ip-gone"), spread("web", ""), controllertest.PendingPod("other", "1"))
	l.Pass(t.Context())
	for _, pod := range []string{"web", "other"} {
		if !l.emitted.Saw(pod + " Nominated") {
			t.Errorf("pod %s got no node: %q", pod, l.emitted.Said)
		}
	}
	if l.emitted.Saw("lost") {
		t.Errorf("pods that run got an event: %q", l.emitted.Said)
	}
}

// FM I11: a DaemonSet that comes, or grows, after the nodes changes nothing about them; the next plan has
// room for it.
func TestFM_I11_DaemonSetComesLate(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("old", "1500m"))
	l.Pass(t.Context())
	l.launchAll()
	claim := l.claims()[0]
	node := l.join(&claim, "2")
	old := controllertest.PendingPod("old", "1500m")
	old.Spec.NodeName, old.Status = node.Name, corev1.PodStatus{Phase: corev1.PodRunning}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}}
	set.Spec.Template.Spec = controllertest.PendingPod("agent", "1").Spec
	l.add(old, set)
	l.Pass(t.Context())
	if n := len(l.claims()); n != 1 || len(l.claims()[0].Finalizers) != len(claim.Finalizers) || l.claims()[0].DeletionTimestamp != nil {
		t.Fatalf("claims %v, want the one there was", l.claims())
	}
	l.add(controllertest.PendingPod("new", "1500m"))
	l.Pass(t.Context())
	for _, c := range l.claims() {
		requested := c.Spec.Resources.Requests.Cpu()
		if want := resource.MustParse("2500m"); c.Name != claim.Name && requested.Cmp(want) != 0 {
			t.Errorf("the new claim requests %s, want 2500m for the pod and the DaemonSet", requested)
		}
	}
	if n := len(l.claims()); n != 2 {
		t.Errorf("%d claims, want another for the new pod", n)
	}
}

// FM I21: a limit that is lowered below what is used removes nothing and launches nothing; what goes by itself is
// replaced once there is room below the limit.
func TestFM_I21_LimitBelowUsage(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pool := controllertest.ReadyPool("general")
	l.add(pool, controllertest.PendingPod("a", "6"), controllertest.PendingPod("b", "6"))
	l.Pass(t.Context())
	l.launchAll()
	for _, c := range l.claims() {
		l.join(&c, "8")
	}
	lower := pool.DeepCopy()
	lower.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	l.add(lower, controllertest.PendingPod("c", "6"))
	l.Pass(t.Context())
	if n := len(l.claims()); n != 2 {
		t.Fatalf("%d claims, want the two there were", n)
	}
	if !l.emitted.Saw("c FailedScheduling", "limit") {
		t.Errorf("no event of the pod names the limit: %q", l.emitted.Said)
	}
	gone := l.claims()
	for i := range gone {
		l.remove(&gone[i], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-" + gone[i].Name}})
		if err := l.client.Delete(t.Context(), &gone[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		l.remove(controllertest.PendingPod(name, "6"))
	}
	l.Pass(t.Context())
	if n := l.emitted.Count("c Nominated", "nodeclaim/"); n != 1 {
		t.Errorf("the pod has no claim although nothing is used any more: %q", l.emitted.Said)
	}
}

// planned does something when a plan was made.
type planned func()

func (p planned) Planned(solve.Plan, time.Time) { p() }

// FM I24: a taint that a pool gets, or loses, while a plan is made counts from the next plan on; what was
// ordered meanwhile is replaced as drifted, since the hash of the pool is another.
func TestFM_I24_TaintsChangeWhilePlanning(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pool := controllertest.ReadyPool("general")
	tainted := pool.DeepCopy()
	tainted.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	l.add(pool, controllertest.PendingPod("a", "6"))
	l.Journal = planned(func() { l.add(tainted) }) // the plan is made, its claims are not
	l.Pass(t.Context())
	l.Pass(t.Context())
	first := l.claims()
	if len(first) != 1 || len(first[0].Spec.Taints) != 0 || first[0].Annotations[karpv1.AnnotationNodePoolHash] == "" {
		t.Fatalf("claims %+v, want one of the pool as it was, with its hash", first)
	}
	l.add(controllertest.PendingPod("b", "6"))
	l.Pass(t.Context())
	if n := len(l.claims()); n != len(first) {
		t.Errorf("%d claims, want %d: the pod does not tolerate the taint", n, len(first))
	}
	if !l.emitted.Saw("b FailedScheduling", "dedicated") {
		t.Errorf("no event of the pod names the taint: %q", l.emitted.Said)
	}
	l.Journal = nil
	l.add(pool)
	l.Pass(t.Context())
	if !l.emitted.Saw("b Nominated") {
		t.Errorf("the pod has no node although the taint is gone: %q", l.emitted.Said)
	}
	if hash, err := drift.PoolHash(tainted); err != nil || hash.Sum == first[0].Annotations[karpv1.AnnotationNodePoolHash] {
		t.Errorf("hash %s, %v: with the taint it is that of the claim, which would stay", hash, err)
	}
}

// FM I25: jobs that come every minute, each in place of those before, stay on the node there is.
func TestFM_I25_JobsEveryMinute(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("first", "7"))
	l.Pass(t.Context())
	l.launchAll()
	claim := l.claims()[0]
	node := l.join(&claim, "8")
	l.remove(controllertest.PendingPod("first", "7"))
	for minute := range 20 {
		var jobs []metav1.Object
		for i := range 7 {
			jobs = append(jobs, controllertest.PendingPod(fmt.Sprintf("job-%d-%d", minute, i), "1"))
		}
		l.add(jobs...)
		l.Pass(t.Context())
		for _, job := range jobs {
			bound := job.(*corev1.Pod).DeepCopy()
			bound.Spec.NodeName, bound.Status = node.Name, corev1.PodStatus{Phase: corev1.PodRunning}
			l.add(bound)
			ended := bound.DeepCopy()
			ended.Status.Phase = corev1.PodSucceeded
			l.add(ended)
		}
	}
	if n := len(l.claims()); n != 1 {
		t.Errorf("%d claims after 20 waves, want the one whose node has room", n)
	}
}

// partitionedCatalogue offers each type in two partitions of a placement group and names the id of its zone.
type partitionedCatalogue struct{ *controllertest.Catalogue }

func (c partitionedCatalogue) Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
	types, err := c.Catalogue.Types(ctx, pool)
	for i := range types {
		var split []catalog.Offering
		for _, o := range types[i].Offerings {
			for _, partition := range []string{"1", "2"} {
				o.Labels = map[string]string{awsv1.LabelPlacementGroupPartition: partition, awsv1.LabelZoneID: "az1"}
				split = append(split, o)
			}
		}
		types[i].Offerings = split
	}
	return types, err
}

// FM I26: a pod requests labels that are known for certain only when the node is up. The claim requests them,
// and at every stage until then the next plan finds the claim again, also while its labels do not have them.
func TestFM_I26_LabelsThatComeLate(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.Cloud = partitionedCatalogue{l.provider}
	pod := controllertest.PendingPod("picky", "1")
	pod.Spec.NodeSelector = map[string]string{awsv1.LabelPlacementGroupPartition: "2", awsv1.LabelZoneID: "az1"}
	l.add(controllertest.ReadyPool("general"), pod)
	stage := func(name string) {
		t.Helper()
		for range 3 {
			l.Pass(t.Context())
		}
		if n := len(l.claims()); n != 1 {
			t.Fatalf("%s: %d claims, want one", name, n)
		}
	}
	stage("planned")
	claim := l.claims()[0]
	for _, key := range []string{awsv1.LabelPlacementGroupPartition, awsv1.LabelZoneID} {
		if !slices.ContainsFunc(claim.Spec.Requirements, func(r karpv1.Requirement) bool {
			return r.Key == key && slices.Equal(r.Values, []string{pod.Spec.NodeSelector[key]})
		}) {
			t.Errorf("the claim does not request %s: %v", key, claim.Spec.Requirements)
		}
	}
	claim.Status.ProviderID = "aws:///a/" + claim.Name
	l.add(&claim)
	stage("launched, without any label")
	l.launchAll()
	stage("launched, without these labels")
	node := l.join(&claim, "2")
	early := node.DeepCopy()
	delete(early.Labels, karpv1.LabelRegistered)
	delete(early.Labels, karpv1.LabelInitialized)
	l.add(early)
	stage("joined")
	full := l.claims()[0]
	full.Status.ProviderID = claim.Status.ProviderID
	full.Labels[awsv1.LabelPlacementGroupPartition], full.Labels[awsv1.LabelZoneID] = "2", "az1"
	maps.Copy(node.Labels, full.Labels)
	l.add(&full, node)
	stage("registered")
}
