package aws

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

// metered is a Provider that measures the calls of one controller.
type metered struct {
	inner      cloud.Provider
	controller string
	metrics    *metric.Set
	now        func() time.Time
}

// measure is deferred: it counts a call that began at a time. The pool is empty where it is not known
// (V15-70).
func (m *metered) measure(method, pool string, begun time.Time, err *error) {
	m.metrics.CloudDuration.WithLabelValues(m.controller, method, providerName).Observe(m.now().Sub(begun).Seconds())
	if *err != nil {
		m.metrics.CloudErrors.WithLabelValues(m.controller, method, providerName, errorName(*err), pool).Inc()
	}
}

const providerName = "aws"

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

func (m *metered) Types(ctx context.Context, pool *karpv1.NodePool) (out []catalog.InstanceType, err error) {
	defer m.measure(methodTypes, pool.Name, m.now(), &err)
	return m.inner.Types(ctx, pool)
}

func (m *metered) Launch(ctx context.Context, claim *karpv1.NodeClaim) (out cloud.Instance, err error) {
	defer m.measure(methodLaunch, claim.Labels[karpv1.LabelNodePool], m.now(), &err)
	return m.inner.Launch(ctx, claim)
}

func (m *metered) Find(ctx context.Context, id cloud.ID) (out cloud.Instance, err error) {
	defer m.measure(methodFind, "", m.now(), &err)
	return m.inner.Find(ctx, id)
}

func (m *metered) List(ctx context.Context) (out []cloud.Instance, err error) {
	defer m.measure(methodList, "", m.now(), &err)
	return m.inner.List(ctx)
}

func (m *metered) Terminate(ctx context.Context, id cloud.ID) (err error) {
	defer m.measure(methodTerminate, "", m.now(), &err)
	return m.inner.Terminate(ctx, id)
}

func (m *metered) Drift(ctx context.Context, claim *karpv1.NodeClaim) (why reason.Reason, err error) {
	defer m.measure(methodDrift, claim.Labels[karpv1.LabelNodePool], m.now(), &err)
	return m.inner.Drift(ctx, claim)
}

func (m *metered) Repairs() []cloud.Repair { return m.inner.Repairs() }

func (m *metered) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) (err error) {
	defer m.measure(methodReboot, claim.Labels[karpv1.LabelNodePool], m.now(), &err)
	return m.inner.Reboot(ctx, claim, operation)
}
