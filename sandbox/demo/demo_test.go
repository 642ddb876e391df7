package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	n := &scene{
		pods:   []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, {Status: corev1.PodStatus{Phase: corev1.PodPending}}},
		claims: []karpv1.NodeClaim{newClaim("a"), newClaim("b", "Launched", "Registered", "Initialized"), newClaim("c", "Launched"), going},
		prices: map[string]float64{"b": 0.1, "c": 0.0234},
	}
	if got, want := n.line(), "pods: 1 of 2 run   nodes: 1 asked for, 1 launched, 1 ready, 1 going   $0.1234/h"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if n.ready() {
		t.Error("ready although one is not")
	}
	if got, want := (&scene{}).line(), "pods: 0 of 0 run   nodes: none   $0.0000/h"; got != want {
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
				l.show(time.Duration(i+1)*time.Second, text)
			}
			l.end()
			l.end()
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
	s := &show{controller: &world.Controller{Log: file}}
	if got, want := s.plans(), (plans{count: 2, price: 0.4, bound: 0.25}); got != want {
		t.Errorf("plans %+v, want %+v", got, want)
	}
}
