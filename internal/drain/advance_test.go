package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// script is a shell that records the requests, and a cloud that says what the test has it say.
type script struct {
	find, terminate, write error

	did []string
}

func (s *script) Find(context.Context) error {
	s.did = append(s.did, "find")
	return s.find
}

func (s *script) Terminate(context.Context) error {
	s.did = append(s.did, "terminate")
	return s.terminate
}

func (s *script) perform(marks []drain.Mark, conditions *[]metav1.Condition) (bool, error) {
	said := false
	for _, m := range marks {
		same := func(c metav1.Condition) bool { return c.Type == m.Type && c.Status == m.Status && c.Reason == m.Reason }
		if slices.ContainsFunc(*conditions, same) {
			continue
		}
		said = true
		s.did = append(s.did, strings.TrimRight(fmt.Sprintf("%s=%s %s", m.Type, m.Status, m.Reason), " "))
		*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == m.Type })
		*conditions = append(*conditions, metav1.Condition{Type: m.Type, Status: m.Status, Reason: m.Reason, LastTransitionTime: *at(0)})
	}
	return said, s.write
}

type nodeScript struct{ script }

func (s *nodeScript) Perform(_ context.Context, f *drain.Facts, step drain.Step) (bool, error) {
	if f.Claim == nil {
		return false, s.write
	}
	f.Claim = f.Claim.DeepCopy()
	return s.perform(step.Marks, &f.Claim.Status.Conditions)
}

func (s *nodeScript) Release(context.Context, drain.Facts) error {
	s.did = append(s.did, "release")
	return nil
}

type claimScript struct{ script }

func (s *claimScript) Perform(_ context.Context, f *drain.ClaimFacts, step drain.ClaimStep) (bool, error) {
	f.Claim = f.Claim.DeepCopy()
	return s.perform(step.Marks, &f.Claim.Status.Conditions)
}

func (s *claimScript) Release(context.Context, drain.ClaimFacts) error {
	s.did = append(s.did, "release")
	return nil
}

var (
	errGone   = &cloud.Error{Kind: cloud.NotFound, Err: errors.New("gone")}
	errDenied = &cloud.Error{Kind: cloud.Denied, Err: errors.New("no permission")}
	errOther  = errors.New("connection reset")
	errWrite  = errors.New("conflict")
)

func TestAdvanceNode(t *testing.T) {
	t.Parallel()
	unready := node(notReady)
	const drained, detached = "Drained=True", "VolumesDetached=True"
	for name, tc := range map[string]struct {
		script script
		node   *corev1.Node
		claim  *karpv1.NodeClaim
		calls  drain.Calls
		want   string
		after  time.Duration
		err    error
		log    drain.Calls // afterwards
	}{
		"LC-25 an unready node whose instance is gone is released": {
			script: script{find: errGone}, node: unready, claim: claim(draining), want: "find release",
		},
		"G3 a cloud that does not respond says nothing": {
			script: script{find: errOther}, node: unready, claim: claim(draining),
			want: "find " + drained + " " + detached + " terminate InstanceTerminating=True", after: time.Second,
			log: drain.Calls{Queried: after(time.Minute), Accepted: after(time.Minute), Said: after(time.Minute)},
		},
		"LC-25 E02 it is not queried again within five seconds": {
			node: unready, claim: claim(draining), calls: drain.Calls{Queried: after(56 * time.Second)},
			want: drained + " " + detached + " terminate InstanceTerminating=True", after: time.Second,
			log: drain.Calls{Queried: after(56 * time.Second), Accepted: after(time.Minute), Said: after(time.Minute)},
		},
		"LC-33 drained: the instance is terminated, once": {
			node: node(), claim: claim(draining), want: drained + " " + detached + " terminate InstanceTerminating=True", after: time.Second,
			log: drain.Calls{Accepted: after(time.Minute), Said: after(time.Minute)},
		},
		"LC-36 gone when it should be terminated": {
			script: script{terminate: errGone}, node: node(), claim: claim(draining), want: drained + " " + detached + " terminate InstanceTerminating=True release",
		},
		"a refusal is explained and returned": {
			script: script{terminate: errDenied}, node: node(), claim: claim(draining), want: drained + " " + detached + " terminate InstanceTerminating=Unknown Unauthorized", err: errDenied,
			after: 5 * time.Second, log: drain.Calls{Said: after(time.Minute)},
		},
		"a write that fails ends the pass": {script: script{write: errWrite}, node: node(), claim: claim(draining), want: drained + " " + detached, err: errWrite, log: drain.Calls{Said: after(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shell := &nodeScript{script: tc.script}
			calls := tc.calls
			wait, err := drain.AdvanceNode(t.Context(), drain.Facts{Node: tc.node, Claim: tc.claim, Now: after(time.Minute)}, &calls, shell)
			if got := strings.Join(shell.did, " "); got != tc.want {
				t.Errorf("did %s\nwant %s", got, tc.want)
			}
			if wait != tc.after || !errors.Is(err, tc.err) || err != nil && tc.err == nil {
				t.Errorf("AdvanceNode() = %s, %v, want %s, %v", wait, err, tc.after, tc.err)
			}
			if calls != tc.log {
				t.Errorf("calls are %+v, want %+v", calls, tc.log)
			}
		})
	}
}

func TestAdvanceClaim(t *testing.T) {
	t.Parallel()
	held := node(func(n *corev1.Node) { n.Finalizers = []string{"example.com/backup"} })
	for name, tc := range map[string]struct {
		script script
		nodes  []*corev1.Node
		calls  drain.Calls
		want   string
		after  time.Duration
		err    error
	}{
		"LC-22 the instance is terminated":              {want: "terminate InstanceTerminating=True", after: time.Second},
		"LC-23 G3 gone":                                 {script: script{terminate: errGone}, want: "terminate release"},
		"LC-22 E02 accepted a moment ago: not repeated": {calls: drain.Calls{Accepted: after(time.Minute - 400*time.Millisecond)}, want: "InstanceTerminating=True", after: 600 * time.Millisecond},
		"refused": {script: script{terminate: errDenied}, want: "terminate InstanceTerminating=Unknown Unauthorized", after: 5 * time.Second, err: errDenied},
		"Trust A10 others hold the Node, instance gone":  {script: script{find: errGone}, nodes: []*corev1.Node{held}, want: "find InstanceTerminating=True", after: 5 * time.Second},
		"Trust A10 others hold the Node, instance there": {nodes: []*corev1.Node{held}, want: "find", after: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shell := &claimScript{script: tc.script}
			calls := tc.calls
			wait, err := drain.AdvanceClaim(t.Context(), drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: tc.nodes, Now: after(time.Minute)}, &calls, shell)
			if got := strings.Join(shell.did, " "); got != tc.want {
				t.Errorf("did %s\nwant %s", got, tc.want)
			}
			if wait != tc.after || !errors.Is(err, tc.err) || err != nil && tc.err == nil {
				t.Errorf("AdvanceClaim() = %s, %v, want %s, %v", wait, err, tc.after, tc.err)
			}
		})
	}
}

// The log does not grow forever with objects that go unnoticed, and keeps what is recent.
func TestCallLogIsBounded(t *testing.T) {
	t.Parallel()
	log := drain.CallLog{}
	log.Record("none", drain.Calls{}, start)
	for i := range 10000 {
		log.Record(pod(fmt.Sprint(i)).UID, drain.Calls{Queried: start}, start)
	}
	log.Record("new", drain.Calls{Accepted: after(time.Hour)}, after(time.Hour))
	log.Record("newer", drain.Calls{Said: after(2 * time.Hour)}, after(2*time.Hour))
	if got := log.Of("0"); got != (drain.Calls{}) {
		t.Errorf("calls of two hours ago are kept: %+v", got)
	}
	if log.Of("new") == (drain.Calls{}) || log.Of("newer") == (drain.Calls{}) {
		t.Error("calls of the last hour are not kept")
	}
	log.Drop("newer")
	if got := log.Of("newer"); got != (drain.Calls{}) {
		t.Errorf("dropped calls are kept: %+v", got)
	}
}
