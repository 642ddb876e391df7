package provisioning

import (
	"sync"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/provision"
)

// LaunchBackoff is the launch back-off that all loops share: those that launch record how it went, and those that plan
// leave out what is backed off.
type LaunchBackoff struct {
	mu    sync.Mutex
	state provision.LaunchBackoff
}

// NewLaunchBackoff returns a LaunchBackoff without any back-off. The label names the capacity reservation of an instance;
// empty: there are no reservations.
func NewLaunchBackoff(reservationLabel string) *LaunchBackoff {
	return &LaunchBackoff{state: provision.LaunchBackoff{ReservationLabel: reservationLabel}}
}

// RecordLaunch records how a launch ended.
func (r *LaunchBackoff) RecordLaunch(claim *karpv1.NodeClaim, launched cloud.Instance, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.RecordLaunch(claim, launched, err, now)
}

// RecordDenied backs off a pool whose claims the API server denies.
func (r *LaunchBackoff) RecordDenied(pool string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.RecordDenied(pool, now)
}

// RecordUnhealthy backs off a pool of which another node did not register.
func (r *LaunchBackoff) RecordUnhealthy(pool string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.RecordUnhealthy(pool, now)
}

// RecordHealthy ends the back-off of a pool that was unhealthy.
func (r *LaunchBackoff) RecordHealthy(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.RecordHealthy(pool)
}

// ClosePools closes the pools that are backed off because their nodes do not register.
func (r *LaunchBackoff) ClosePools(pools []cluster.Pool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.ClosePools(pools, now)
}

// PoolBackedOff reports whether a static pool is backed off.
func (r *LaunchBackoff) PoolBackedOff(pool string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.PoolBackedOff(pool, now)
}

// WithoutBackedOff returns the instance types of a pool, with backed-off offerings marked as not available.
func (r *LaunchBackoff) WithoutBackedOff(pool string, list []catalog.InstanceType, now time.Time) []catalog.InstanceType {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.WithoutBackedOff(pool, list, now)
}
