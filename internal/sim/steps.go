package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reboot"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// Steps is the steps that a process shares with the controller. A test replaces one of them to plant a bug; nil is
// the step of the controller.
type Steps struct {
	NodeProtectedBy func(*corev1.Node, *karpv1.NodePool) string
	WindowCloses    func(*provision.Window) time.Time
	RecordOrders    func(*provision.State, []provision.OrderResult, *cluster.Snapshot, time.Time) (replan bool)
	DeniedPools     func([]execute.Created) []string
	ReplanDue       func(pending int, buffersShort bool) bool
	EndBufferPass   func(p *buffer.Passes, failed bool, now time.Time) (next time.Duration, goOn bool)
	Grow, Shrink    func(pool.StaticFacts) pool.StaticStep
	AvailableTypes  func(*provision.LaunchBackoff, string, []catalog.InstanceType, time.Time) []catalog.InstanceType
	LaunchWait      func(b *provision.Batches, batch int, waited time.Duration) time.Duration
	RecordLaunch    func(*provision.LaunchBackoff, *karpv1.NodeClaim, cloud.Instance, error, time.Time)
	AdvanceNode     func(context.Context, drain.Facts, *drain.Calls, drain.NodeShell) (time.Duration, error)
	InstanceOf      func(claim *karpv1.NodeClaim, launched cloud.ID) cloud.ID
	NodeMissing     func(claim *karpv1.NodeClaim, cached []*corev1.Node) bool
	AdvanceClaim    func(context.Context, drain.ClaimFacts, *drain.Calls, drain.ClaimShell) (time.Duration, error)
	Interrupt       func(*interruption.State, interruption.Notice, *karpv1.NodeClaim, string, time.Time) []interruption.Effect
	BlockEnding     func(lifecycle.Blocks, *karpv1.NodeClaim, time.Time) (end time.Time, ending bool)
	OnDemandLabels  func(labels map[string]string, reservation ...string) map[string]string
	AddEvictions    func(*drain.EvictionQueue, time.Time, ...drain.Eviction) (wake []cluster.PodID)
	NextEviction    func(*drain.EvictionQueue, cluster.PodID, *corev1.Pod, *corev1.Node, time.Time) drain.EvictionStep
	RecordEviction  func(*drain.EvictionQueue, cluster.PodID, drain.Act, error, time.Time) drain.EvictionOutcome
	AdvanceReboot   func(context.Context, reboot.Facts, *reboot.Calls, reboot.Shell) (time.Duration, error)

	NextPool       func(pool.Facts) (pool.Step, error)
	RegistrationOf func([]metav1.Condition, []pool.Result) pool.Registration

	RecordRisk func(*risk.Book, risk.Event, risk.Offering, time.Time)

	CompleteDrivers func(list []*resourcev1.ResourceSlice, node string) []string

	EvaluateOverlays func([]v1alpha1.NodeOverlay, []overlay.Pool, resources.Table, reqs.Vocabulary) (*overlay.Set, []overlay.Verdict)
	ApplyOverlays    func(*overlay.State, overlay.Pool) []catalog.InstanceType // for plans
	LaunchTypes      func(*overlay.State, overlay.Pool) []catalog.InstanceType // for a launch
}

// complete returns the steps with those of the controller where none is given.
func (s Steps) complete() Steps {
	s.completeEnds()
	if s.NodeProtectedBy == nil {
		s.NodeProtectedBy = cluster.NodeProtectedBy
	}
	if s.WindowCloses == nil {
		s.WindowCloses = (*provision.Window).Closes
	}
	if s.RecordOrders == nil {
		s.RecordOrders = (*provision.State).RecordOrders
	}
	if s.DeniedPools == nil {
		s.DeniedPools = execute.DeniedPools
	}
	if s.ReplanDue == nil {
		s.ReplanDue = provision.ReplanDue
	}
	if s.EndBufferPass == nil {
		s.EndBufferPass = (*buffer.Passes).End
	}
	if s.Grow == nil {
		s.Grow = pool.Grow
	}
	if s.Shrink == nil {
		s.Shrink = pool.Shrink
	}
	if s.AvailableTypes == nil {
		s.AvailableTypes = (*provision.LaunchBackoff).WithoutBackedOff
	}
	if s.LaunchWait == nil {
		s.LaunchWait = (*provision.Batches).LaunchWait
	}
	if s.RecordLaunch == nil {
		s.RecordLaunch = (*provision.LaunchBackoff).RecordLaunch
	}
	if s.NextPool == nil {
		s.NextPool = pool.Next
	}
	if s.RegistrationOf == nil {
		s.RegistrationOf = pool.RegistrationOf
	}
	if s.RecordRisk == nil {
		s.RecordRisk = (*risk.Book).Add
	}
	if s.CompleteDrivers == nil {
		s.CompleteDrivers = devices.CompleteDrivers
	}
	if s.EvaluateOverlays == nil {
		s.EvaluateOverlays = overlay.Evaluate
	}
	if s.ApplyOverlays == nil {
		s.ApplyOverlays = (*overlay.State).Apply
	}
	if s.LaunchTypes == nil {
		s.LaunchTypes = (*overlay.State).Apply
	}
	return s
}

// completeEnds completes the steps of nodes that are left, rebooted or terminated.
func (s *Steps) completeEnds() {
	if s.AdvanceNode == nil {
		s.AdvanceNode = drain.AdvanceNode
	}
	if s.InstanceOf == nil {
		s.InstanceOf = drain.InstanceOf
	}
	if s.NodeMissing == nil {
		s.NodeMissing = lifecycle.NodeMissing
	}
	if s.AdvanceClaim == nil {
		s.AdvanceClaim = drain.AdvanceClaim
	}
	if s.Interrupt == nil {
		s.Interrupt = (*interruption.State).Advance
	}
	if s.BlockEnding == nil {
		s.BlockEnding = lifecycle.Blocks.Ending
	}
	if s.OnDemandLabels == nil {
		s.OnDemandLabels = lifecycle.OnDemandLabels
	}
	if s.AddEvictions == nil {
		s.AddEvictions = (*drain.EvictionQueue).Add
	}
	if s.NextEviction == nil {
		s.NextEviction = (*drain.EvictionQueue).Next
	}
	if s.RecordEviction == nil {
		s.RecordEviction = (*drain.EvictionQueue).Record
	}
	if s.AdvanceReboot == nil {
		s.AdvanceReboot = reboot.Advance
	}
}
