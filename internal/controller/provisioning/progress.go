package provisioning

import (
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/store"
)

// progress shows the plan that is being made: how many pods it is for and how long it has taken. What
// it returns takes the time so far and hands it back; when the plan is there, end removes the series.
func (p *Provisioner) progress(view store.View) (shown func(time.Duration) time.Duration, end func()) {
	id := strconv.FormatUint(view.Version, 10)
	depth, took := p.Metrics.SchedulerQueueDepth, p.Metrics.SchedulerUnfinishedWork
	depth.WithLabelValues(provisioner, id).Set(float64(len(view.Pods)))
	gauge := took.WithLabelValues(provisioner, id)
	return func(sofar time.Duration) time.Duration {
			gauge.Set(sofar.Seconds())
			return sofar
		}, func() {
			depth.DeleteLabelValues(provisioner, id)
			took.DeleteLabelValues(provisioner, id)
		}
}
