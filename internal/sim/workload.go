package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// App is a Deployment: so many pods of a kind, and how they may be disturbed.
type App struct {
	Name      string
	Replicas  int
	Milli     int64
	MiB       int64
	Priority  int32
	Grace     int64                     // seconds that its pods take to end at most
	Protect   string                    // annotation do-not-disrupt of its pods
	Budget    *policyBudget             // PodDisruptionBudget; nil: none
	Apart     bool                      // no two pods on a node
	Spread    bool                      // over zones, at most one more in one than in another
	Selector  map[string]string         // of nodes
	Tolerates []corev1.Toleration       // taints of pools
	Volumes   int                       // of each pod, in the zone where it first ran
	Widgets   int64                     // of each pod
	Devices   int64                     // that each pod claims for itself
	Shares    bool                      // one claim among all pods of such apps
	Sizes     func() (milli, mib int64) // of each pod; nil: those above
}

// policyBudget is one of MaxUnavailable and MinAvailable.
type policyBudget struct{ max, min *intstr.IntOrString }

// deployment is an App at work.
type deployment struct {
	App
	pods map[string]bool // all that exist
	made int
	left time.Time             // when a pod was last gone
	like []corev1.ResourceList // what pods that were moved requested: those that follow them request the same
}

// deploy creates or changes an App.
func (w *World) deploy(a App) {
	d := w.apps[a.Name]
	if d == nil {
		d = &deployment{pods: map[string]bool{}}
		w.apps[a.Name] = d
	}
	d.App = a
	if a.Budget != nil {
		w.api.put(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.Name, UID: w.api.uid("pdb")},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": a.Name}}, MaxUnavailable: a.Budget.max, MinAvailable: a.Budget.min},
		})
	}
	w.fill(d)
	w.allow(d)
}

// scale changes how many pods are wanted.
func (w *World) scale(name string, replicas int) {
	if d := w.apps[name]; d != nil {
		w.logf("user: %s is scaled from %d to %d", name, d.Replicas, replicas)
		d.Replicas = replicas
		w.fill(d)
		w.allow(d)
	}
}

// live lists the pods of a deployment that are not ending, those first that would be missed least.
func (w *World) live(d *deployment) []*corev1.Pod {
	var out []*corev1.Pod
	for _, name := range sorted(d.pods) {
		if p := w.api.pods[name]; p != nil && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	return out
}

func rank(p *corev1.Pod) int {
	switch {
	case p.Spec.NodeName == "":
		return 0
	case !running(p):
		return 1
	}
	return 2
}

// fill makes as many pods as are wanted, as a ReplicaSet does.
func (w *World) fill(d *deployment) {
	if d.Volumes > 0 {
		w.fillSet(d)
		return
	}
	live := w.live(d)
	for ; len(live) > d.Replicas; live = live[1:] {
		w.endPod(live[0], time.Duration(d.Grace)*time.Second)
	}
	for n := len(live); n < d.Replicas; n++ {
		d.made++
		p := w.podOf(d)
		d.pods[p.Name] = true
		w.api.put(p)
	}
}

// podOf is a new pod of a deployment.
func (w *World) podOf(d *deployment) *corev1.Pod {
	requests := amounts(d.Milli, d.MiB)
	switch {
	case len(d.like) > 0:
		requests, d.like = d.like[0], d.like[1:]
	case d.Sizes != nil:
		requests = amounts(d.Sizes())
	}
	if d.Widgets > 0 {
		requests[widget] = widgetsOf(d.Widgets)
	}
	labels := map[string]string{"app": d.Name}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%04d", d.Name, d.made), UID: w.api.uid("pod"), Labels: labels, CreationTimestamp: metav1.NewTime(w.now),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name, UID: "rs", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}},
			NodeSelector:                  maps.Clone(d.Selector),
			Tolerations:                   d.Tolerates,
			TerminationGracePeriodSeconds: new(d.Grace),
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if d.Priority != 0 {
		p.Spec.Priority = new(d.Priority)
	}
	if d.Protect != "" {
		key := karpv1.AnnotationDoNotDisrupt
		if d.Protect == "true" && d.Name[len(d.Name)-1]%2 == 1 { // some use a deprecated annotation
			key = karpv1.AnnotationDoNotEvict
		}
		p.Annotations = map[string]string{key: d.Protect}
	}
	if d.Name == controllerApp {
		p.OwnerReferences[0].UID = controllerApp // replicas of the controller are recognized by it
	}
	d.wantDevices(p)
	selector := &metav1.LabelSelector{MatchLabels: labels}
	if d.Apart {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: selector}},
		}}
	}
	if d.Spread {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	}
	return p
}

// running reports whether a pod works.
func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

// endPod ends a pod; it takes up to its grace.
func (w *World) endPod(p *corev1.Pod, grace time.Duration) {
	if p.Spec.NodeName == "" {
		w.api.drop(p)
		return
	}
	next := p.DeepCopy()
	next.DeletionTimestamp, next.DeletionGracePeriodSeconds = new(metav1.NewTime(w.now.Add(grace))), new(int64(grace/time.Second))
	w.api.put(next)
	w.stopPod(next, w.between(min(grace, time.Second), grace))
}

// stopPod has the kubelet of a pod end it, as soon as it can.
func (w *World) stopPod(pod *corev1.Pod, after time.Duration) {
	w.after(after, func() {
		switch p := w.api.pods[pod.Name]; {
		case p == nil || p.UID != pod.UID:
		case w.kubelet(p):
			w.api.drop(p)
		default:
			w.stopPod(pod, 10*time.Second)
		}
	})
}

// kubelet reports whether the machine of a pod is there to start or end it. It starts none whose volumes are
// not there.
func (w *World) kubelet(p *corev1.Pod) bool {
	node := w.api.nodes[p.Spec.NodeName]
	return node == nil || cluster.NodeReady(node) && (p.DeletionTimestamp != nil || w.attached(p))
}

// abandon deletes the pods of a node that has been unreachable for five minutes, as Kubernetes does.
func (w *World) abandon(name string) {
	node := w.api.nodes[name]
	if node == nil || cluster.NodeReady(node) {
		return
	}
	for _, p := range w.api.podsOn(name) {
		if p.DeletionTimestamp == nil && !daemonPod(p) {
			w.endPod(p, 30*time.Second)
		}
	}
}

// allow keeps the status of the budget of a deployment, as the disruption controller of Kubernetes does.
func (w *World) allow(d *deployment) {
	old := w.api.budgets[d.Name]
	if old == nil {
		return
	}
	healthy := 0
	for name := range d.pods {
		if p := w.api.pods[name]; p != nil && p.DeletionTimestamp == nil && running(p) {
			healthy++
		}
	}
	least := 0
	if m := d.Budget.max; m != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(m, d.Replicas, true)
		least = d.Replicas - n
	} else {
		least, _ = intstr.GetScaledValueFromIntOrPercent(d.Budget.min, d.Replicas, true)
	}
	allowed := int32(max(0, healthy-least))
	w.checks.allows(d.Name, allowed)
	if allowed != old.Status.DisruptionsAllowed {
		next := old.DeepCopy()
		next.Status.DisruptionsAllowed = allowed
		w.api.put(next)
	}
}

// runDaemons starts the pods of DaemonSets on a node that joined.
func (w *World) runDaemons(node string) {
	for _, name := range sorted(w.api.daemons) {
		set := w.api.daemons[name]
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name + "-" + node, UID: w.api.uid("pod"), Labels: set.Spec.Template.Labels, CreationTimestamp: metav1.NewTime(w.now),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: set.UID, Controller: new(true)}},
			},
			Spec:   *set.Spec.Template.Spec.DeepCopy(),
			Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(w.now))},
		}
		p.Spec.NodeName = node
		w.api.put(p)
	}
}

func daemonPod(p *corev1.Pod) bool {
	return len(p.OwnerReferences) > 0 && p.OwnerReferences[0].Kind == "DaemonSet"
}

// daemonSet takes a little of every node.
func daemonSet(w *World) *appsv1.DaemonSet {
	labels := map[string]string{"daemon": "logs"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logs", UID: w.api.uid("ds")},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				Containers:  []corev1.Container{{Name: "logs", Resources: corev1.ResourceRequirements{Requests: amounts(100, 128)}}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}},
	}
}
