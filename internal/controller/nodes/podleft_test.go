package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

func TestPodsThatWakeADrain(t *testing.T) {
	t.Parallel()
	running := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	done := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	held := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}}, Status: running.Status}
	for name, tc := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"it ended":                   {before: running, after: done, want: true},
		"it had ended":               {before: done, after: done},
		"nothing of interest":        {before: running, after: running},
		"it is no longer protected":  {before: held, after: running, want: true},
		"it is still protected":      {before: held, after: held},
		"its protection was changed": {before: running, after: held, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := podLeft().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("wakes: %t, want %t", got, tc.want)
			}
		})
	}
	if !podLeft().Delete(event.DeleteEvent{Object: running}) || podLeft().Create(event.CreateEvent{Object: running}) {
		t.Error("a pod that went wakes a drain, one that came is seen a second later")
	}
}
