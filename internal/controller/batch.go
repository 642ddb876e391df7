package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Batcher collects triggers of a plan into windows (SC-04). The first trigger opens a window, and each new one
// extends it. It closes after an idle time, or when its maximum length is reached.
type Batcher struct {
	idle, longest time.Duration

	mu   sync.Mutex
	open bool               // a window is
	seen map[types.UID]bool // in the window; while none is open, the first that will open one
	news chan struct{}      // something new asked
}

// NewBatcher returns a Batcher with no window open.
func NewBatcher(idle, longest time.Duration) *Batcher {
	return &Batcher{idle: idle, longest: longest, seen: map[types.UID]bool{}, news: make(chan struct{}, 1)}
}

// Trigger requests a plan. It never blocks.
func (b *Batcher) Trigger(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[uid] || !b.open && len(b.seen) > 0 { // a process that does not lead never opens a window
		return
	}
	b.seen[uid] = true
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
	b.setOpen(true)
	defer b.setOpen(false)
	longest, idle := time.NewTimer(b.longest), time.NewTimer(b.idle)
	defer longest.Stop()
	defer idle.Stop()
	for {
		select {
		case <-b.news:
			idle.Reset(b.idle)
			continue
		case <-idle.C:
		case <-longest.C:
		case <-ctx.Done():
			return false
		}
		return true
	}
}

// setOpen opens a window, or closes it and drops its triggers.
func (b *Batcher) setOpen(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open = open; open {
		return
	}
	clear(b.seen)
	select {
	case <-b.news: // belongs to the window that closes now
	default:
	}
}
