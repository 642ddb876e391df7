package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// instanceTerminator is the part of a cloud that terminates instances.
type instanceTerminator interface {
	Find(ctx context.Context, id cloud.ID) (cloud.Instance, error)
	Terminate(ctx context.Context, id cloud.ID) error
}

// instance is the instance of what is terminated in one pass. It is a drain.Instance.
type instance struct {
	provider instanceTerminator
	id       cloud.ID
}

var errNoProviderID = errors.New("there is no provider id")

// Find looks up the instance.
func (i instance) Find(ctx context.Context) error {
	if i.id == "" {
		return errNoProviderID
	}
	_, err := i.provider.Find(ctx, i.id)
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		log.FromContext(ctx).Error(err, "cannot find out whether the instance of a node exists", "provider-id", i.id)
	}
	return err
}

// Terminate requests its termination.
func (i instance) Terminate(ctx context.Context) error { return i.provider.Terminate(ctx, i.id) }

// callLog is a drain.CallLog for several workers. One object has one worker at a time.
type callLog struct {
	mu  sync.Mutex
	log drain.CallLog
}

// update has the calls for an object changed.
func (l *callLog) update(uid types.UID, now time.Time, change func(*drain.Calls) (time.Duration, error)) (time.Duration, error) {
	l.mu.Lock()
	calls := l.log.Of(uid)
	l.mu.Unlock()
	after, err := change(&calls)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Record(uid, calls, now)
	return after, err
}

func (l *callLog) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Drop(uid)
}
