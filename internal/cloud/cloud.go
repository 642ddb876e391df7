package cloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// ID is a provider id as Nodes carry it, such as aws:///us-east-1a/i-0abc.
type ID string

// Provider is a cloud. Objects that are handed over are in their effective form and are not changed.
// Methods are safe for concurrent use. Every error is an *Error; an id of another cloud is Invalid. What is
// guaranteed here is tested for every cloud by internal/cloud/conformance.
type Provider interface {
	// Types returns all instance types a pool could have, including those without capacity at the
	// moment. The slice is shared: it must not be changed.
	Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)

	// Launch launches the instance of a claim. It is idempotent on the UID of the claim: called again, also
	// by another process or at the same time, it returns the instance that was launched before.
	Launch(ctx context.Context, claim *karpv1.NodeClaim) (Instance, error)

	// Find returns an instance that exists, be it on its way out; NotFound once it is gone.
	Find(ctx context.Context, id ID) (Instance, error)

	// List returns every instance of this cluster that exists. A list that may be incomplete is an error.
	List(ctx context.Context) ([]Instance, error)

	// Terminate requests the end of an instance; NotFound once it is gone. It may be repeated.
	Terminate(ctx context.Context, id ID) error

	// Drift says why an instance is not what its node class requests now, such as AMIDrift; no code if
	// it is, or if that cannot be known.
	Drift(ctx context.Context, claim *karpv1.NodeClaim) (reason.Reason, error)

	// Repairs returns the repair policies for unhealthy nodes. It never changes; the slice is the caller's.
	Repairs() []Repair

	// Reboot requests a reboot of the instance of a claim and returns once that is accepted. The
	// operation is the same for each repetition of one request. Unsupported, Invalid, Denied and NotFound
	// mean that repeating it cannot help (V15-66).
	Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error
}

// Instance is one machine.
type Instance struct {
	ID           ID
	Type         string
	Zone         string
	CapacityType string
	Image        string
	Labels       map[string]string // of the node that it is, or will be
	Annotations  map[string]string // to keep on the claim
	Capacity     corev1.ResourceList
	Allocatable  corev1.ResourceList
	Launched     time.Time
	Terminating  bool   // shutting down, or ended
	Stopped      bool   // stopping, or stopped: it exists, but is no node
	Pool         string // from the tags it was launched with
	Class        string // the same
	Claim        string // the same; empty if the tags do not say
}

// Gate holds the registration of a node until the cloud knows all about it (LC-09).
type Gate interface {
	Name() string
	// Open returns labels that became known. A wait above zero means: not yet, call again after it.
	Open(ctx context.Context, claim *karpv1.NodeClaim) (labels map[string]string, wait time.Duration, err error)
}
