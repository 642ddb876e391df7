package observe_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/observe"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// LC-62, API 11: a deprecated annotation leads to an event with the current name.
func TestLC62_OldAnnotationsAreDeprecated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  map[string]string
		node map[string]string
		on   string
		want string
	}{
		"a deprecated pod annotation":    {pod: map[string]string{karpv1.AnnotationDoNotEvict: "true"}, on: "p", want: karpv1.AnnotationDoNotEvict + " is deprecated"},
		"a deprecated node annotation":   {node: map[string]string{karpv1.AnnotationDoNotConsolidate: "true"}, on: "n", want: karpv1.AnnotationDoNotConsolidate + " is deprecated"},
		"the annotation of today":        {pod: map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}, on: "p"},
		"both":                           {pod: map[string]string{karpv1.AnnotationDoNotDisrupt: "true", karpv1.AnnotationDoNotEvict: "true"}, on: "p"},
		"deprecated, but without effect": {pod: map[string]string{karpv1.AnnotationDoNotEvict: "false"}, on: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: tc.node, Labels: map[string]string{karpv1.LabelNodePool: "default"}}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: tc.pod}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			events := &controllertest.Recorder{}
			r := &observe.AnnotationDeprecations{Client: fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(node, pod).Build(), Events: events}
			if err := r.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := events.Text(tc.on, event.AnnotationDeprecated); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("reported %q, want %q", got, tc.want)
			}
		})
	}
}
