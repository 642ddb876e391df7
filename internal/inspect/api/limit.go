package api

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// cached keeps a value for a while. While one is made, others wait for it.
type cached[T any] struct {
	keep  time.Duration
	now   func() time.Time
	build func(ctx context.Context) (T, error)
	turn  chan struct{} // held while a value is made or read

	value T
	until time.Time
}

func newCached[T any](keep time.Duration, now func() time.Time, build func(ctx context.Context) (T, error)) cached[T] {
	return cached[T]{keep: keep, now: now, build: build, turn: make(chan struct{}, 1)}
}

// get returns the value, which is made first if it is too old.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	if c.now().Before(c.until) {
		return c.value, nil
	}
	var none T
	c.value = none // so that the old one and the new one are not held together
	value, err := c.build(ctx)
	if err == nil {
		err = ctx.Err() // the view of a client that disconnected may be incomplete
	}
	if err != nil {
		return none, err
	}
	c.value, c.until = value, c.now().Add(c.keep)
	time.AfterFunc(c.keep, c.dropOld)
	return value, nil
}

// dropOld frees a value that is too old: that of a large cluster takes much memory.
func (c *cached[T]) dropOld() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if !c.now().Before(c.until) {
		var none T
		c.value = none
	}
}

// plans makes one plan at a time. Requests for the plan that is being made wait for it; requests for another one are rejected.
type plans struct {
	now      func() time.Time
	panicked func(problem string)

	mu      sync.Mutex
	busy    bool
	running *madePlan // nil: none
	last    *madePlan // the latest that was made
}

// madePlan is a plan for a WhatIf.
type madePlan struct {
	key     string
	done    chan struct{}
	changes inspect.Changes
	err     error
	until   time.Time // set once it is made
}

// get returns a plan for a change. It is made in a context of its own, since others may wait for it.
func (p *plans) get(ctx context.Context, change *inspect.WhatIf, build func(ctx context.Context) (inspect.Changes, error)) (inspect.Changes, error) {
	text, err := json.Marshal(change)
	if err != nil {
		return inspect.Changes{}, err
	}
	plan, err := p.start(context.WithoutCancel(ctx), string(text), build)
	if err != nil {
		return inspect.Changes{}, err
	}
	select {
	case <-plan.done:
		return plan.changes, plan.err
	case <-ctx.Done():
		return inspect.Changes{}, ctx.Err()
	}
}

// start returns the plan with a key: the latest, the one that is being made, or a new one.
func (p *plans) start(ctx context.Context, key string, build func(ctx context.Context) (inspect.Changes, error)) (*madePlan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last != nil && p.last.key == key && p.now().Before(p.last.until):
		return p.last, nil
	case p.running != nil && p.running.key == key:
		return p.running, nil
	case p.busy:
		return nil, errBusy
	}
	plan := &madePlan{key: key, done: make(chan struct{})}
	p.busy, p.running = true, plan
	go func() {
		ctx, cancel := context.WithTimeout(ctx, planWithin)
		defer cancel()
		plan.err = safely(p.panicked, func() (err error) {
			plan.changes, err = build(ctx)
			return err
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy, p.running = false, nil
		if plan.err == nil && !plan.changes.Partial {
			plan.until = p.now().Add(planFor)
			p.last = plan
		}
		close(plan.done)
	}()
	return plan, nil
}

// acquire reserves the turn for other work of the same weight.
func (p *plans) acquire() (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return nil, errBusy
	}
	p.busy = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy = false
	}, nil
}
