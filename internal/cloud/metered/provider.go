package metered

import (
	"context"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Methods as the metrics name them.
const (
	methodTypes     = "GetInstanceTypes"
	methodLaunch    = "Create"
	methodFind      = "Get"
	methodList      = "List"
	methodTerminate = "Delete"
	methodDrift     = "IsDrifted"
	methodReboot    = "Reboot"
)

// Provider measures the calls of one controller to a cloud. Its fields are set once.
type Provider struct {
	Inner      cloud.Provider
	Cloud      string // its name in the metrics
	Controller string
	Metrics    *metric.Set
	Now        func() time.Time
}

// measure is deferred: it counts a call that began at a time. The pool is empty where it is not known
// (V15-70).
func (m *Provider) measure(method, pool string, begun time.Time, err *error) {
	m.Metrics.CloudDuration.WithLabelValues(m.Controller, method, m.Cloud).Observe(m.Now().Sub(begun).Seconds())
	if *err != nil {
		m.Metrics.CloudErrors.WithLabelValues(m.Controller, method, m.Cloud, errorName(*err), pool).Inc()
	}
}

// errorName is the name of an error's kind in the metrics; those that have none are unknown (V15-70).
func errorName(err error) string {
	switch cloud.KindOf(err) {
	case cloud.NotFound:
		return "NodeClaimNotFoundError"
	case cloud.NotReady:
		return "NodeClassNotReadyError"
	case cloud.NoCapacity:
		return "InsufficientCapacityError"
	case cloud.Unknown, cloud.Throttled, cloud.Denied, cloud.Invalid, cloud.Unsupported:
		return "unknown"
	default:
		return "unknown"
	}
}

// Types returns all instance types a pool could have.
func (m *Provider) Types(ctx context.Context, pool *karpv1.NodePool) (out []catalog.InstanceType, err error) {
	defer m.measure(methodTypes, pool.Name, m.Now(), &err)
	return m.Inner.Types(ctx, pool)
}

// Launch launches the instance of a claim.
func (m *Provider) Launch(ctx context.Context, claim *karpv1.NodeClaim) (out cloud.Instance, err error) {
	defer m.measure(methodLaunch, claim.Labels[karpv1.LabelNodePool], m.Now(), &err)
	return m.Inner.Launch(ctx, claim)
}

// Find returns an instance that exists.
func (m *Provider) Find(ctx context.Context, id cloud.ID) (out cloud.Instance, err error) {
	defer m.measure(methodFind, "", m.Now(), &err)
	return m.Inner.Find(ctx, id)
}

// List returns every instance of this cluster.
func (m *Provider) List(ctx context.Context) (out []cloud.Instance, err error) {
	defer m.measure(methodList, "", m.Now(), &err)
	return m.Inner.List(ctx)
}

// Terminate requests the end of an instance.
func (m *Provider) Terminate(ctx context.Context, id cloud.ID) (err error) {
	defer m.measure(methodTerminate, "", m.Now(), &err)
	return m.Inner.Terminate(ctx, id)
}

// Drift says why an instance is not what its node class requests.
func (m *Provider) Drift(ctx context.Context, claim *karpv1.NodeClaim) (why reason.Reason, err error) {
	defer m.measure(methodDrift, claim.Labels[karpv1.LabelNodePool], m.Now(), &err)
	return m.Inner.Drift(ctx, claim)
}

// Repairs returns the repair policies; nothing is called, so that nothing is measured.
func (m *Provider) Repairs() []cloud.Repair { return m.Inner.Repairs() }

// Reboot requests a reboot.
func (m *Provider) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) (err error) {
	defer m.measure(methodReboot, claim.Labels[karpv1.LabelNodePool], m.Now(), &err)
	return m.Inner.Reboot(ctx, claim, operation)
}
