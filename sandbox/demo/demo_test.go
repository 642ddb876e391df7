package demo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

func newClaim(name string, conditions ...string) karpv1.NodeClaim {
	c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, kind := range conditions {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	return c
}

func TestSceneInOneLine(t *testing.T) {
	t.Parallel()
	going := newClaim("d", "Launched")
	going.DeletionTimestamp = &metav1.Time{}
	n := &clusterView{
		pods:   []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, {Status: corev1.PodStatus{Phase: corev1.PodPending}}},
		claims: []karpv1.NodeClaim{newClaim("a"), newClaim("b", "Launched", "Registered", "Initialized"), newClaim("c", "Launched"), going},
		prices: map[string]float64{"b": 0.1, "c": 0.0234},
	}
	if got, want := n.summaryLine(), "pods: 1 of 2 run   nodes: 1 requested, 1 launched, 1 ready, 1 terminating   $0.1234/h"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if n.ready() {
		t.Error("ready although one is not")
	}
	if got, want := (&clusterView{}).summaryLine(), "pods: 0 of 0 run   nodes: none   $0.0000/h"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// In a log, a line that says nothing new is not written; on a terminal it is written over.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		terminal bool
		want     string
	}{
		"log":      {false, "         1.0 s  one\n         3.0 s  two\n"},
		"terminal": {true, "\r\x1b[K         1.0 s  one\r\x1b[K         2.0 s  one\r\x1b[K         3.0 s  two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l := &liveLine{out: &out, terminal: tc.terminal}
			for i, text := range []string{"one", "one", "two"} {
				l.updateLine(time.Duration(i+1)*time.Second, text)
			}
			l.finishLine()
			l.finishLine()
			if got := out.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if isTerminal(&out) {
				t.Error("a buffer is no terminal")
			}
		})
	}
}

// Of several plans, the largest bound counts; other lines do not.
func TestPlansAreReadFromTheLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	lines := []string{
		`{"level":"INFO","message":"computed new nodeclaim(s) to fit pod(s)","nodeclaims":2,"price":0.3,"lower-bound":0.25}`,
		`not JSON`,
		`{"level":"INFO","message":"another","lower-bound":7}`,
		`{"level":"INFO","message":"computed new nodeclaim(s) to fit pod(s)","nodeclaims":1,"price":0.1,"lower-bound":0.1}`,
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &demoRun{controller: &world.Controller{Log: file}}
	if got, want := s.loggedPlans(), (plans{count: 2, price: 0.4, bound: 0.25}); got != want {
		t.Errorf("plans %+v, want %+v", got, want)
	}
}

// Pods of all moves count, and the last bound; other reasons do not.
func TestMovesAreReadFromTheLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	lines := []string{
		`{"level":"INFO","message":"disrupting node(s)","reason":"empty","pod-count":5,"lower-bound":9}`,
		`{"level":"INFO","message":"disrupting node(s)","reason":"underutilized","pod-count":3,"lower-bound":0.4}`,
		`{"level":"INFO","message":"disrupting node(s)","reason":"underutilized","pod-count":2,"lower-bound":0.3}`,
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &demoRun{controller: &world.Controller{Log: file}}
	if got, want := s.loggedMoves(), (moves{pods: 5, bound: 0.3}); got != want {
		t.Errorf("moves %+v, want %+v", got, want)
	}
}

// Rest begins anew with every node that comes, goes or changes.
func TestAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		well := true
		rest := (&demoRun{}).atRest(func(*clusterView) bool { return well })
		one, two := &clusterView{claims: []karpv1.NodeClaim{newClaim("a")}}, &clusterView{claims: []karpv1.NodeClaim{newClaim("a"), newClaim("b")}}
		at := func(n *clusterView, holds, want bool) {
			t.Helper()
			well = holds
			if got := rest(n); got != want {
				t.Errorf("at rest %v, want %v", got, want)
			}
		}
		at(one, true, false)
		time.Sleep(restTime + time.Second)
		at(two, true, false)
		time.Sleep(restTime + time.Second)
		at(two, false, false)
		time.Sleep(restTime + time.Second)
		at(two, true, true)
	})
}

// Every node keeps a pod before one keeps two.
func TestGoers(t *testing.T) {
	t.Parallel()
	n := &clusterView{}
	for i, node := range []string{"a", "a", "a", "b", "c", "c"} {
		p := corev1.Pod{}
		p.Name, p.Spec.NodeName = fmt.Sprint(i), node
		n.pods = append(n.pods, p)
	}
	for stay, want := range map[int]int{0: 6, 3: 3, 4: 2, 6: 0, 9: 0} {
		left := map[string]int{"a": 3, "b": 1, "c": 2}
		goers := n.surplusPods(stay)
		for _, p := range goers {
			left[p.Spec.NodeName]--
		}
		if len(goers) != want || stay >= 3 && (left["a"] < 1 || left["b"] < 1 || left["c"] < 1) {
			t.Errorf("%d stay: %d go, left %v", stay, len(goers), left)
		}
	}
}
