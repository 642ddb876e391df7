package controller_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// LC-62, API 11: whoever protects something by an annotation of old is told the name of today.
func TestLC62_OldAnnotationsAreDeprecated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  map[string]string
		node map[string]string
		on   string
		want string
	}{
		"a pod of old":              {pod: map[string]string{karpv1.AnnotationDoNotEvict: "true"}, on: "p", want: karpv1.AnnotationDoNotEvict + " is deprecated"},
		"a node of old":             {node: map[string]string{karpv1.AnnotationDoNotConsolidate: "true"}, on: "n", want: karpv1.AnnotationDoNotConsolidate + " is deprecated"},
		"the annotation of today":   {pod: map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}, on: "p"},
		"both":                      {pod: map[string]string{karpv1.AnnotationDoNotDisrupt: "true", karpv1.AnnotationDoNotEvict: "true"}, on: "p"},
		"of old, but without force": {pod: map[string]string{karpv1.AnnotationDoNotEvict: "false"}, on: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := endNodeObject(func(n *corev1.Node) { n.Annotations = tc.node })
			w := newWorld(t, interceptor.Funcs{}, node, endPod("p", func(p *corev1.Pod) { p.Annotations = tc.pod }))
			r := &controller.AnnotationDeprecations{Client: w.client, Events: w.told, Metrics: w.metrics}
			if err := r.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.told.text(tc.on, event.AnnotationDeprecated); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("told %q, want %q", got, tc.want)
			}
		})
	}
}
