package provisioning

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// sentNotes are the notes of events that were sent.
type sentNotes []string

func (s *sentNotes) Eventf(_, _ runtime.Object, _, _, _, _ string, args ...any) {
	*s = append(*s, args[0].(string))
}

// A pod whose cause changes is told so at once; the same cause with other amounts is a repeat.
func TestUnschedulable_AnotherCauseIsAnotherEvent(t *testing.T) {
	t.Parallel()
	notReady := []reason.Reason{{Code: reason.NoPool, Because: []reason.Reason{{Code: reason.PoolClosed, Subject: "nodepool/general", Have: "it is not ready"}}}}
	tooLarge := func(have string) []reason.Reason {
		return []reason.Reason{{Code: reason.NoTypeFits, Subject: "nodepool/general", Have: have, Want: "cpu 500"}}
	}
	var sent sentNotes
	recorder := report.New(&sent, func() time.Time { return time.Unix(0, 0) })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}
	for _, why := range [][]reason.Reason{notReady, notReady, tooLarge("cpu 8"), tooLarge("cpu 16"), notReady} {
		recorder.Emit(pod, unschedulable("No node can take the pod: ", why))
	}
	if len(sent) != 2 {
		t.Errorf("%d events were sent, want one that the pool is not ready and one that the pod is too large: %q", len(sent), sent)
	}
}
