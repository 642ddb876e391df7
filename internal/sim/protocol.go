package sim

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// Protocol is the life of commands: that of the controller, or in tests one with a planted bug.
type Protocol interface {
	MarkBackoffs(view *disrupt.View, now time.Time) (hidden bool)
	RecordFailure(why karpv1.DisruptionReason, now time.Time, nodes ...disrupt.Candidate)
	Resume(nodes []cluster.ManagedNode, l command.Leftovers) []command.Effect
	CleanUp(nodes []cluster.ManagedNode, l command.Leftovers) []command.Effect
	Begin(c disrupt.Command, poolBackedOff func(pool string) bool, now time.Time) []command.Effect
	Held(c disrupt.Command, lost map[string]bool, now time.Time) (disrupt.Command, []command.Effect)
	Validate(held []disrupt.Command, l command.SecondLook) ([]disrupt.Command, []command.Effect)
	Ordered(c disrupt.Command, o command.Orders, now time.Time) []command.Effect
	BeginObserve(token string, now time.Time) (disrupt.Running, bool)
	Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect
	Deleted(token string, failed map[string]bool, now time.Time) []command.Effect
	RecordLostReplacement(claim string) bool
	Due(now time.Time) []string
	NextDue(now time.Time) (time.Duration, bool)
	Running() []disrupt.Running
}

// Shipped is the protocol of the controller.
type Shipped struct{ *command.Queue }

// Validate validates commands whose nodes are held.
func (Shipped) Validate(held []disrupt.Command, l command.SecondLook) ([]disrupt.Command, []command.Effect) {
	return command.Validate(held, l)
}

func (w *World) newProtocol() Protocol {
	shipped := Shipped{command.NewQueue(w.config.Seed)}
	if w.config.Protocol != nil {
		return w.config.Protocol(shipped)
	}
	return shipped
}
