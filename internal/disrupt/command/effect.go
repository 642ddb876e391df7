package command

import (
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Effect is something to do outside of this package: one of the types below. Effects are performed in order.
// One that fails does not keep the others from being performed (G9).
type Effect interface{ effect() }

// Effects on objects.
type (
	// Hold taints the nodes of a command and records its reason. Report with Held.
	Hold struct{ Command disrupt.Command }
	// Release undoes Hold for some nodes, which are not part of a command then.
	Release struct{ Nodes []disrupt.Candidate }
	// CleanNode undoes what a command of the past wrote on a node and its claim.
	CleanNode struct{ Node disrupt.Candidate }
	// UnmarkReplacements removes the annotations of their command from replacements, which are ordinary nodes then.
	UnmarkReplacements struct{ Claims []string }
	// DeleteReplacements deletes replacements of a command that did not get all of them. Otherwise each attempt
	// would leave some behind. One that cannot be deleted becomes an ordinary node.
	DeleteReplacements struct{ Claims []Replacement }
	// Delete deletes the claims of a command that is ready. Report with Deleted.
	Delete struct{ Command disrupt.Running }
	// RequestReboot hands a command over to the reboot controller (V15-34).
	RequestReboot struct{ Command disrupt.Command }
)

// Effects on the cache and the queue.
type (
	// BackOff is to be recorded with RecordFailure.
	BackOff struct {
		Reason karpv1.DisruptionReason
		Nodes  []disrupt.Candidate
	}
	// Commit marks the nodes of a command as being removed, and reserves the places of their pods: Claims are the
	// replacements of some of them, and the command has those that go to existing nodes.
	Commit struct {
		Command disrupt.Running
		Claims  map[cluster.PodKey]string
	}
	// Resumed marks the nodes of a command that is taken over from an earlier process.
	Resumed struct{ Command disrupt.Running }
	// LaunchDenied backs off the launches of a NodePool: the API server denies its claims (FM A14).
	LaunchDenied struct{ Pool string }
	// Nominate reserves replacements, so that other loops do not remove them meanwhile.
	Nominate struct{ Claims []string }
)

// What happened, for events, metrics, logs and the journal.
type (
	// Refused is a command that cannot start now: Busy is part of a running command, or the pools of static
	// replacements are backed off.
	Refused struct {
		Command disrupt.Command
		Busy    *disrupt.Candidate
	}
	// Objected is a node of a command that stays after validation.
	Objected struct {
		Command   disrupt.Command
		Objection disrupt.Objection
		Events    []disrupt.ObjectEvent
	}
	// Invalid is a command that validation rejected.
	Invalid struct{ Command disrupt.Command }
	// Awaited is an event on a replacement that is not up yet.
	Awaited struct {
		Claim string
		Event event.Event
	}
	// DriftBackedOff is a pool whose drift is backed off.
	DriftBackedOff struct{ Pool string }
	// Failed is a running command that cannot succeed. Its nodes stay.
	Failed struct {
		Command disrupt.Running
		Why     string
	}
	// Finished is a running command with nothing left to do.
	Finished struct{ Command disrupt.Running }
	// Outcome is how a command ended.
	Outcome struct {
		Command disrupt.Command
		Text    string
	}
	// WakePass requests another pass: it may find more to do.
	WakePass struct{}
)

// Replacement is a claim that was created for a command, and the pods that were planned for it.
type Replacement struct {
	Name string
	UID  types.UID
	Pods []cluster.PodKey
}

func (Hold) effect()               {}
func (Release) effect()            {}
func (CleanNode) effect()          {}
func (UnmarkReplacements) effect() {}
func (DeleteReplacements) effect() {}
func (Delete) effect()             {}
func (RequestReboot) effect()      {}
func (BackOff) effect()            {}
func (Commit) effect()             {}
func (Resumed) effect()            {}
func (Nominate) effect()           {}
func (LaunchDenied) effect()       {}
func (Refused) effect()            {}
func (Objected) effect()           {}
func (Invalid) effect()            {}
func (Awaited) effect()            {}
func (DriftBackedOff) effect()     {}
func (Failed) effect()             {}
func (Finished) effect()           {}
func (Outcome) effect()            {}
func (WakePass) effect()           {}
