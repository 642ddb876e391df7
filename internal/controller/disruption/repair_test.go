package disruption_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// repairScene is a scene in which unhealthy nodes are repaired, by the real decisions.
type repairScene struct {
	*fixture
	lines []string
}

func newClinic(t *testing.T) *repairScene {
	t.Helper()
	c := &repairScene{fixture: newFixture(t, interceptor.Funcs{})}
	set, err := disrupt.NewRepairSet([]cloud.Repair{
		{Condition: "Ready", Status: "Unknown", Toleration: 30 * time.Minute, Bound: new(time.Duration(0)), Action: cloud.ReplaceNode},
		{Condition: "DiskReady", Status: "False", ReasonRegex: "^Read", Toleration: time.Minute, Bound: new(time.Minute), Priority: 10, Action: cloud.RebootNode},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Repairs, c.Methods.Repair = set, true
	c.Decide = func(v disrupt.View, stop func() bool) disrupt.Decision {
		for i := range v.Nodes {
			v.Nodes[i].Settling = true // others have nothing to do here
		}
		return disrupt.Next(v, stop)
	}
	c.Reboot = (&nodes.Reboots{
		Client: c.client, Store: c.memory, Events: &controllertest.Recorder{}, Metrics: c.metrics, Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}},
		Now: func() time.Time { return c.clock },
	}).Commit
	for _, name := range []string{"n1", "n2", "n3"} {
		c.node(name, "pod-"+name)
	}
	return c
}

// ails gives a node a condition that began some time ago, or takes it away again.
func (c *repairScene) ails(name string, is corev1.NodeCondition, since time.Duration) {
	c.t.Helper()
	n := &corev1.Node{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		c.t.Fatal(err)
	}
	is.LastTransitionTime = metav1.NewTime(c.clock.Add(-since))
	n.Status.Conditions = []corev1.NodeCondition{is}
	if err := c.client.Status().Update(c.t.Context(), n); err != nil {
		c.t.Fatal(err)
	}
	c.sync()
}

func (c *repairScene) annotate(name, key, value string) {
	c.t.Helper()
	n := &corev1.Node{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		c.t.Fatal(err)
	}
	n.Annotations = map[string]string{key: value}
	if err := c.client.Update(c.t.Context(), n); err != nil {
		c.t.Fatal(err)
	}
	c.sync()
}

// visit is one pass, with what it writes into the log.
func (c *repairScene) visit() {
	c.t.Helper()
	ctx := log.IntoContext(c.t.Context(), funcr.New(func(_, args string) { c.lines = append(c.lines, args) }, funcr.Options{Verbosity: 1}))
	c.sync()
	if err := c.Pass(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.sync()
}

func (c *repairScene) logged(parts ...string) bool {
	for _, line := range c.lines {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			return true
		}
	}
	return false
}

func (c *repairScene) stored(name string) *karpv1.NodeClaim {
	c.t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := c.client.Get(context.WithoutCancel(c.t.Context()), client.ObjectKey{Name: name}, claim); err != nil {
		c.t.Fatal(err)
	}
	return claim
}

// V15-12, V15-26, V15-29, V15-31, V15-32: a dead node is removed with the bound of its policy, and all of
// that can be read.
func TestRepairRemovesADeadNode(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.clock = c.clock.Add(24 * time.Hour)
	silent := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
	c.ails("n1", silent, 10*time.Minute)
	c.visit()
	if c.stored("claim-n1").DeletionTimestamp != nil || !c.logged("matched repair policy", `"Ready"`) {
		t.Errorf("tolerated for half an hour; log %q", c.lines)
	}
	c.ails("n1", corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, 0)
	c.visit()
	if !c.logged("no repair policy matches any more", "n1") {
		t.Errorf("log %q", c.lines)
	}
	c.ails("n1", silent, time.Hour)
	c.annotate("n1", karpv1.AnnotationDoNotRepair, "true")
	c.visit()
	if c.stored("claim-n1").DeletionTimestamp != nil {
		t.Error("V15-08: the node carries do-not-repair")
	}
	c.annotate("n1", karpv1.AnnotationDoNotRepair, "yes") // any other text is ignored
	c.lines = nil
	c.visit()
	claim := c.stored("claim-n1")
	if claim.DeletionTimestamp == nil || claim.Annotations[karpv1.AnnotationTerminationTimestamp] != c.clock.UTC().Format(time.RFC3339) {
		t.Errorf("deleted %v, annotations %v", claim.DeletionTimestamp, claim.Annotations)
	}
	if !c.logged("selected repair policy", `"fallback"=true`, `"ReplaceNode"`, `"termination-grace-period"="0s"`) || !c.logged("disrupting node(s)", `"reason"="unhealthy"`) {
		t.Errorf("log %q", c.lines)
	}
	if n := testutil.ToFloat64(c.metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues("ready", "general", "on-demand", "", "forceful")); n != 1 {
		t.Errorf("%v repairs counted", n)
	}
	if n := testutil.ToFloat64(c.metrics.DisruptionDecisions.WithLabelValues("delete", "unhealthy", "")); n != 1 {
		t.Errorf("%v decisions counted", n)
	}
}

// V15-30, V15-31, V15-34, V15-69: a node is rebooted twice a day at most; then it is replaced.
func TestRepairReboots(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.clock = c.clock.Add(24 * time.Hour)
	unhealthy := corev1.NodeCondition{Type: "DiskReady", Status: corev1.ConditionFalse, Reason: "ReadErrors"}
	for round := range 2 {
		c.ails("n1", unhealthy, time.Hour)
		c.visit()
		claim := c.stored("claim-n1")
		if found := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting); found == nil || found.Reason != "RebootRequested" || found.Message != "DiskReady=False (ReadErrors)" {
			t.Fatalf("round %d: %+v; log %q", round, found, c.lines)
		}
		if !c.logged("committed node reboot", "n1") || claim.Annotations[karpv1.AnnotationRebootTerminationGracePeriod] != "1m0s" || claim.DeletionTimestamp != nil {
			t.Errorf("annotations %v, log %q", claim.Annotations, c.lines)
		}
		c.visit() // a node that reboots is left alone
		claim = c.stored("claim-n1")
		claim.Status.Conditions = condition.Remove(claim.Status.Conditions, karpv1.ConditionRebooting)
		if err := c.client.Status().Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		c.clock = c.clock.Add(time.Hour)
	}
	if n := testutil.ToFloat64(c.metrics.DisruptionDecisions.WithLabelValues("reboot", "unhealthy", "")); n != 2 {
		t.Errorf("%v reboots counted as decisions", n)
	}
	c.lines = nil
	c.visit()
	if c.stored("claim-n1").DeletionTimestamp == nil || !c.logged("disrupting node(s)", `"reboot-escalated"`) {
		t.Errorf("not replaced after two reboots; log %q", c.lines)
	}
}
