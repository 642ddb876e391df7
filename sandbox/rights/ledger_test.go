package rights_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// LG-16, decision 14: a ledger without its right is kept in memory. The log says so once, with the rule, and it is stored once the
// rule is there.
func TestLG_16_TheLedgerWithoutItsRight(t *testing.T) {
	namespace := server.Namespace(t)
	s := beginSubject(t, world.Installation{Namespace: namespace, ServiceAccount: "forgetful"}, nil, world.ControllerOptions{LeaderElection: true, Flags: []string{"--ledger=true"}})
	const warning = "allow the service account to get and update configmaps dovetail-ledger-00"
	s.waitUntil(func() string {
		if s.count(warning) == 0 {
			return "no line of the log names the rule"
		}
		return ""
	})
	s.ready("rights", "")
	s.installed.Rules = world.Stored()
	s.applyRights()
	s.waitUntil(func() string {
		list := &corev1.ConfigMapList{}
		if err := kube.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{keep.Label: keep.LabelValue}); err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return "there is no ConfigMap"
		}
		return ""
	})
	if n := s.count(warning); n != 1 {
		t.Errorf("%d lines of the log name the rule, want one", n)
	}
}
