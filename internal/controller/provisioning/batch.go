package provisioning

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/provision"
)

// Batcher waits for the windows that triggers of a plan are collected in.
type Batcher struct {
	mu     sync.Mutex
	window provision.Window
	news   chan struct{} // there is a new reason for a pass
}

// NewBatcher returns a Batcher with no window open.
func NewBatcher(idle, longest time.Duration) *Batcher {
	return &Batcher{window: provision.Window{Idle: idle, Max: longest}, news: make(chan struct{}, 1)}
}

// Trigger requests a plan. It never blocks.
func (b *Batcher) Trigger(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.window.Trigger(uid, time.Now()) {
		return
	}
	select {
	case b.news <- struct{}{}:
	default: // a trigger is pending already
	}
}

// Wait returns true when a window closed, and false when the context ended.
func (b *Batcher) Wait(ctx context.Context) bool {
	select {
	case <-b.news:
	case <-ctx.Done():
		return false
	}
	closes := time.NewTimer(b.open())
	defer closes.Stop()
	for {
		select {
		case <-b.news: // it may have been extended, which is seen when the timer fires
		case <-closes.C:
			left, closed := b.close()
			if closed {
				return true
			}
			closes.Reset(left)
		case <-ctx.Done():
			b.mu.Lock()
			defer b.mu.Unlock()
			b.drop()
			return false
		}
	}
}

// open opens a window and returns for how long.
func (b *Batcher) open() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.Open(time.Now())
	return time.Until(b.window.Closes())
}

// close closes the window if it is time, and otherwise returns how long that takes.
func (b *Batcher) close() (left time.Duration, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.window.Close(time.Now()) {
		return time.Until(b.window.Closes()), false
	}
	b.drop()
	return 0, true
}

// drop closes the window and drops the request for a pass.
func (b *Batcher) drop() {
	b.window.Drop()
	select {
	case <-b.news: // belongs to the window that closes now
	default:
	}
}
