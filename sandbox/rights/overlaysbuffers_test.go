package rights_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/rights"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// overlayAndBufferRights are the rights to read NodeOverlays and CapacityBuffers, and those that are missed while there is one of either.
func overlayAndBufferRights(t *testing.T) (read, used []rights.Right) {
	t.Helper()
	overlays, buffers := "karpenter.sh", "autoscaling.x-k8s.io"
	return []rights.Right{findRight(t, overlays, "nodeoverlays", "watch"), findRight(t, buffers, "capacitybuffers", "watch")},
		[]rights.Right{findRight(t, overlays, "nodeoverlays/status", "patch"), findRight(t, buffers, "capacitybuffers/status", "patch"), findRight(t, "", "podtemplates", "watch")}
}

// S-116, OV-24, CB-17: without the rights to read overlays and buffers the log names the rules, and the controller is ready.
func TestS_116_WithoutARightToReadOverlaysAndBuffers(t *testing.T) {
	missing, _ := overlayAndBufferRights(t)
	s := beginSubject(t, world.Installation{ServiceAccount: "adjusts-nothing"}, missing, world.ControllerOptions{})
	for _, r := range missing {
		s.waitForWarning(r)
	}
	s.ready("rights", "")
	s.ready("caches", "")
}

// S-116, OV-23, CB-11: without the rights to write their status the log names the rules; once they are there, conditions are
// written. A buffer whose PodTemplate may not be read says so itself.
func TestS_116_WithoutARightToTheStatusOfOverlaysAndBuffers(t *testing.T) {
	_, missing := overlayAndBufferRights(t)
	overlayStatus, bufferStatus, templates := missing[0], missing[1], missing[2]
	s := beginSubject(t, world.Installation{ServiceAccount: "adjusts"}, missing, world.ControllerOptions{})
	overlay := &v1alpha1.NodeOverlay{}
	s.createFromYAML(overlay, `
metadata: {name: rights}
spec: {price: "1", requirements: [{key: karpenter.sh/nodepool, operator: In, values: [none]}]}
`)
	buffer := &autoscalingv1beta1.CapacityBuffer{}
	s.createFromYAML(buffer, `
metadata: {name: rights, namespace: default}
spec: {podTemplateRef: {name: rights}, replicas: 1}
`)
	s.waitForWarning(overlayStatus)
	s.waitForWarning(bufferStatus)
	s.grantRights(overlayStatus, bufferStatus)
	s.hasCondition(overlay, "ValidationSucceeded", metav1.ConditionTrue, "", func() []metav1.Condition { return overlay.Status.Conditions })
	s.hasCondition(buffer, "ReadyForProvisioning", metav1.ConditionFalse, "may not read PodTemplates", func() []metav1.Condition { return buffer.Status.Conditions })
	s.waitForWarning(templates)
}

// hasCondition waits for a condition whose message has a text.
func (s *subject) hasCondition(obj client.Object, kind string, status metav1.ConditionStatus, text string, conditions func() []metav1.Condition) {
	s.Helper()
	s.waitUntil(func() string {
		if err := kube.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err.Error()
		}
		for _, c := range conditions() {
			if c.Type == kind && c.Status == status && strings.Contains(c.Message, text) {
				return ""
			}
		}
		return fmt.Sprintf("%s has no condition %s=%s with %q: %v", obj.GetName(), kind, status, text, conditions())
	})
}
