package app

import (
	"context"
	"fmt"
	"time"
)

// stopTimeout is how long a stop may take. The manager gives its loops 30 s, and so does a kubelet by default.
const stopTimeout = 35 * time.Second

// runWithStopTimeout runs a manager, and returns when it ended or after the stop timeout. A manager of
// controller-runtime that still fills its caches ignores its context: while the API server cannot be reached, the
// process would never end and keep a core busy.
func runWithStopTimeout(ctx context.Context, limit time.Duration, start func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("the controllers did not stop within %s; the API server may be away: the process ends without waiting for them", limit)
	}
}
