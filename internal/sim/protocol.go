package sim

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Protocol is the steps that a process shares with the controller. A test replaces one of them to plant a bug; nil is
// the step of the controller.
type Protocol struct {
	NodeForbiddenBy func(*corev1.Node, *karpv1.NodePool) string
}

// complete returns the steps with those of the controller where none is given.
func (s Protocol) complete() Protocol {
	if s.NodeForbiddenBy == nil {
		s.NodeForbiddenBy = cluster.NodeForbiddenBy
	}
	return s
}
