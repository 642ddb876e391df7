package loop

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Wake wakes a loop. It never blocks.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Turns is a loop of the leader whose turns return when the next one is due. A turn that fails or panics is
// logged, and the next one comes as usual.
type Turns struct {
	Name    string // of the controller, for the log
	Metrics *metric.Set
	Turn    func(context.Context) (time.Duration, error)
	Every   time.Duration   // when the next turn is due after one that panicked
	Wake    <-chan struct{} // nil: nothing wakes it
	Soon    time.Duration   // delay of a turn after a wake-up
}

// NeedLeaderElection says that only the leader runs it.
func (*Turns) NeedLeaderElection() bool { return true }

// Start runs until the context ends.
func (t *Turns) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", t.Name))
	for {
		wait := t.Every
		once := Ticker{Name: t.Name, Metrics: t.Metrics, Pass: func(ctx context.Context) (err error) {
			wait, err = t.Turn(ctx)
			return err
		}}
		if err := once.RunOnce(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reconciler error")
		}
		if !t.waitForTurn(ctx, wait) {
			return nil
		}
	}
}

// waitForTurn waits until the next turn is due, or until shortly after a wake-up.
func (t *Turns) waitForTurn(ctx context.Context, wait time.Duration) bool {
	due := time.NewTimer(wait)
	defer due.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
		return true
	case <-t.Wake:
	}
	soon := time.NewTimer(min(wait, t.Soon))
	defer soon.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soon.C:
	}
	select {
	case <-t.Wake: // this turn serves later wake-ups too
	default:
	}
	return true
}
