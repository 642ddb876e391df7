package observe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/observe"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/report"
)

func aClaim(list ...metav1.Condition) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c", CreationTimestamp: metav1.NewTime(birth)}}
	c.Status.Conditions = list
	return c
}

func was(name string, status metav1.ConditionStatus, reason string, seconds int) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(birth.Add(time.Duration(seconds) * time.Second))}
}

// operations 8.7, V15-72: conditions, their changes and the end of objects, under the name of the kind
// and under the old name.
func TestConditionMetrics(t *testing.T) {
	t.Parallel()
	now, reg, log := birth.Add(100*time.Second), prometheus.NewRegistry(), &controllertest.EventLog{}
	clock := func() time.Time { return now }
	set := metric.New(reg)
	node := aNode("n")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(birth)}}
	w := newWatches(node)
	m := &observe.ConditionMetrics{
		Informers: w, All: set.AllConditions, Now: clock,
		Kinds: []observe.ConditionKind{observe.ClaimConditions(set), observe.PoolConditions(set), observe.NodeConditions(set, report.New(log, clock))},
	}
	reg.MustRegister(m)
	w.run(t, 3, m.Start)
	check := func(prefix string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, series(t, reg, prefix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
	check("operator_node_status",
		"operator_node_status_condition_count{name=n,reason=KubeletReady,status=True,type=Ready} 1",
		"operator_node_status_condition_current_status_seconds{name=n,reason=KubeletReady,status=True,type=Ready} 100")

	w.add(aClaim(was("Launched", "Unknown", "AwaitingReconciliation", 0)))
	w.update(aClaim(was("Launched", "True", "Launched", 5)))
	claim := aClaim(was("Launched", "True", "Launched", 5), was("Drifted", "True", "NodePoolDrifted", 60))
	w.update(claim)
	check("operator_nodeclaim",
		"operator_nodeclaim_status_condition_count{name=c,reason=Launched,status=True,type=Launched} 1",
		"operator_nodeclaim_status_condition_count{name=c,reason=NodePoolDrifted,status=True,type=Drifted} 1",
		"operator_nodeclaim_status_condition_current_status_seconds{name=c,reason=Launched,status=True,type=Launched} 95",
		"operator_nodeclaim_status_condition_current_status_seconds{name=c,reason=NodePoolDrifted,status=True,type=Drifted} 40",
		"operator_nodeclaim_status_condition_transition_seconds{status=Unknown,to_status=True,type=Drifted} 1 sum 60",
		"operator_nodeclaim_status_condition_transition_seconds{status=Unknown,to_status=True,type=Launched} 1 sum 5",
		"operator_nodeclaim_status_condition_transitions_total{reason=Launched,status=True,type=Launched} 1",
		"operator_nodeclaim_status_condition_transitions_total{reason=NodePoolDrifted,status=True,type=Drifted} 1")
	check("operator_status_condition_transitions_total",
		"operator_status_condition_transitions_total{group=karpenter.sh,kind=NodeClaim,reason=Launched,status=True,type=Launched} 1",
		"operator_status_condition_transitions_total{group=karpenter.sh,kind=NodeClaim,reason=NodePoolDrifted,status=True,type=Drifted} 1")
	check("operator_status_condition_count",
		"operator_status_condition_count{group=karpenter.sh,kind=NodeClaim,name=c,reason=Launched,status=True,type=Launched} 1",
		"operator_status_condition_count{group=karpenter.sh,kind=NodeClaim,name=c,reason=NodePoolDrifted,status=True,type=Drifted} 1",
		"operator_status_condition_count{kind=Node,name=n,reason=KubeletReady,status=True,type=Ready} 1")

	claim = claim.DeepCopy()
	claim.DeletionTimestamp = new(metav1.NewTime(birth.Add(70 * time.Second)))
	w.update(claim)
	check("operator_nodeclaim_termination", "operator_nodeclaim_termination_current_time_seconds{name=c} 30")
	now = birth.Add(110 * time.Second)
	w.remove(claim)
	check("operator_nodeclaim_termination", "operator_nodeclaim_termination_duration_seconds{} 1 sum 40")
	check("operator_nodeclaim_status_condition_c") // FM N03

	unhealthy := node.DeepCopy()
	unhealthy.Status.Conditions[0].Status, unhealthy.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	unhealthy.Status.Conditions[0].LastTransitionTime = metav1.NewTime(birth.Add(105 * time.Second))
	w.update(unhealthy)
	if diff := cmp.Diff([]string{"n Normal Ready: Status condition Ready changed from True to Unknown, reason NodeStatusUnknown"}, log.Lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// operations 8.7, OV-24, CB-17: conditions of NodeOverlays and CapacityBuffers are measured from when these kinds can be
// watched, which may be long after the start.
func TestConditionMetricsOfOptionalKinds(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	set := metric.New(reg)
	overlay := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "o"}}
	overlay.Status.Conditions = []metav1.Condition{was("Ready", "False", "Conflict", 10)}
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
	buffer.Status.Conditions = []metav1.Condition{was("Provisioning", "True", "FitsExistingCapacity", 20)}
	w := newWatches(overlay, buffer)
	served, never := make(chan struct{}), make(chan struct{})
	m := &observe.ConditionMetrics{
		Informers: w, All: set.AllConditions, Now: func() time.Time { return birth.Add(100 * time.Second) },
		Kinds: []observe.ConditionKind{observe.ClaimConditions(set), observe.OverlayConditions(set, served), observe.BufferConditions(set, served), observe.PoolConditions(set)},
	}
	m.Kinds[3].Readable = never
	reg.MustRegister(m)
	w.run(t, 1, m.Start)
	if got := series(t, reg, "operator_nodeoverlay"); len(got) > 0 {
		t.Errorf("series of a kind that is not served: %v", got)
	}
	close(served)
	for range 2 {
		<-w.ready
	}
	for prefix, want := range map[string]string{
		"operator_nodeoverlay_status_condition_count":    "operator_nodeoverlay_status_condition_count{name=o,reason=Conflict,status=False,type=Ready} 1",
		"operator_capacitybuffer_status_condition_count": "operator_capacitybuffer_status_condition_count{name=b,namespace=shop,reason=FitsExistingCapacity,status=True,type=Provisioning} 1",
	} {
		if diff := cmp.Diff([]string{want}, series(t, reg, prefix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
}
