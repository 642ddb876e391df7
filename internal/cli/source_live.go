package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

const (
	leaderRetry = 30 * time.Second // after it could not respond
	objectsFor  = 5 * time.Second  // how long objects that were read serve
	marketFor   = 10 * time.Minute // the same for instance types and prices, whose request takes seconds
)

// leader is the controller that decides.
type leader interface {
	inspect.Adviser
	Close()
}

// liveSource queries the leader or, if it cannot respond, the objects of the cluster.
type liveSource struct {
	dial    func(ctx context.Context) (leader, error)
	objects *objectSource
	timeout time.Duration // of a question
	now     func() time.Time

	mu     sync.Mutex
	leader leader // nil: not connected
	why    error  // why it cannot respond; nil: it can, or was not queried
	retry  time.Time
}

// Fleet implements inspect.Service.
func (l *liveSource) Fleet(ctx context.Context) (inspect.Fleet, error) {
	return queryLive(ctx, l, inspect.Adviser.Fleet, func(f *inspect.Fleet, notes []string) {
		f.Source, f.Notes = "objects", append(notes, f.Notes...)
	})
}

// Explain implements inspect.Service.
func (l *liveSource) Explain(ctx context.Context, about inspect.Subject) (inspect.Explanation, error) {
	return queryLive(ctx, l, func(s inspect.Adviser, ctx context.Context) (inspect.Explanation, error) {
		return s.Explain(ctx, about)
	},
		func(e *inspect.Explanation, notes []string) { e.Notes = append(notes, e.Notes...) })
}

// Plan implements inspect.Service.
func (l *liveSource) Plan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	return queryLive(ctx, l, func(s inspect.Adviser, ctx context.Context) (inspect.Changes, error) { return s.Plan(ctx, change) },
		func(c *inspect.Changes, notes []string) { c.Notes = append(notes, c.Notes...) })
}

// History implements inspect.Service.
func (l *liveSource) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	return queryLive(ctx, l, func(s inspect.Adviser, ctx context.Context) (inspect.History, error) { return s.History(ctx, query) },
		func(h *inspect.History, notes []string) { h.Notes = append(notes, h.Notes...) })
}

// Savings implements inspect.Service.
func (l *liveSource) Savings(ctx context.Context, query inspect.SavingsQuery) (inspect.Savings, error) {
	return queryLive(ctx, l, func(s inspect.Adviser, ctx context.Context) (inspect.Savings, error) { return s.Savings(ctx, query) },
		func(*inspect.Savings, []string) {})
}

// Advise implements inspect.Adviser.
func (l *liveSource) Advise(ctx context.Context) (inspect.Advice, error) {
	return queryLive(ctx, l, inspect.Adviser.Advise, func(a *inspect.Advice, notes []string) { a.Notes = append(notes, a.Notes...) })
}

// queryLive queries the leader, then the objects. note adds to a response of the objects why it is not the leader's.
func queryLive[T any](ctx context.Context, l *liveSource, query func(inspect.Adviser, context.Context) (T, error), note func(*T, []string)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var why error
	for range 2 { // a connection of before may be lost: the leader changed, or its pod was replaced
		var to leader
		var fresh bool
		if to, fresh, why = l.connect(ctx); why != nil {
			break
		}
		response, err := query(to, ctx)
		if _, unavailable := errors.AsType[api.UnavailableError](err); !unavailable {
			return response, l.explained(ctx, err)
		}
		why = err
		l.disconnect(to, err)
		if fresh {
			break
		}
	}
	var none T
	if ctx.Err() != nil {
		return none, l.explained(ctx, ctx.Err())
	}
	response, err := query(l.objects, ctx)
	switch {
	case err == nil:
		note(&response, []string{"based on objects and events of the cluster, because " + why.Error()})
		return response, nil
	case isNotFound(err):
		return response, err
	case isOfAPIServer(err) && ctx.Err() == nil: // why the leader cannot be queried either
		return none, err
	}
	return none, fmt.Errorf("%w\n%w", why, l.explained(ctx, err))
}

func isNotFound(err error) bool {
	_, is := errors.AsType[inspect.NotFoundError](err)
	return is
}

// isOfAPIServer reports whether the API server cannot be used at all: it does not respond, or knows nothing of the user.
func isOfAPIServer(err error) bool {
	_, unreachable := errors.AsType[*url.Error](err)
	return unreachable || apierrors.IsUnauthorized(err)
}

// explained says how a question that took too long gets more time.
func (l *liveSource) explained(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no response within %s; raise --timeout, or take a snapshot and use it with --scenario: %w", l.timeout, err)
	}
	return err
}

// connect returns the leader. fresh says that the connection was made for this question.
func (l *liveSource) connect(ctx context.Context) (to leader, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != nil {
		return l.leader, false, nil
	}
	if l.why != nil && l.now().Before(l.retry) {
		return nil, false, l.why
	}
	to, err = l.dial(ctx)
	if err != nil {
		l.why, l.retry = err, l.now().Add(leaderRetry)
		return nil, false, err
	}
	l.leader, l.why = to, nil
	return to, true, nil
}

// disconnect records that the leader cannot respond, unless another request was quicker.
func (l *liveSource) disconnect(from leader, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != from {
		return
	}
	from.Close()
	l.leader, l.why, l.retry = nil, why, l.now()
}

// objectSource responds from the objects and events of a cluster. It decides with the defaults of Dovetail, or with the
// settings of the controller that it finds.
type objectSource struct {
	env  func(string) (string, bool)
	live live
	kube *rest.Config
	now  func() time.Time

	mu      sync.Mutex
	file    *snapshot.File
	read    time.Time
	market  snapshot.MarketSource
	outdate time.Time // of the market
}

// service returns a service of the current objects.
func (o *objectSource) service(ctx context.Context) (*snapshot.Service, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil || o.now().After(o.read.Add(objectsFor)) {
		l := o.live
		if o.now().Before(o.outdate) {
			l.market = o.market
		}
		file, err := readLive(ctx, o.env, l)
		if err != nil {
			return nil, err
		}
		if l.market == nil {
			o.market, o.outdate = snapshot.MarketOf(file), o.now().Add(marketFor)
		}
		o.file, o.read = file, o.now()
	}
	return &snapshot.Service{File: o.file, Words: cloudWords(), Past: &eventHistory{kube: o.kube}}, nil
}

// Fleet implements inspect.Service.
func (o *objectSource) Fleet(ctx context.Context) (inspect.Fleet, error) {
	s, err := o.service(ctx)
	if err != nil {
		return inspect.Fleet{}, err
	}
	return s.Fleet(ctx)
}

// Explain implements inspect.Service.
func (o *objectSource) Explain(ctx context.Context, about inspect.Subject) (inspect.Explanation, error) {
	s, err := o.service(ctx)
	if err != nil {
		return inspect.Explanation{}, err
	}
	e, err := s.Explain(ctx, about)
	if lack, lacks := s.File.Lacks("nodes"); lacks && isNotFound(err) {
		return explainWithoutNodes(ctx, s, about, lack)
	}
	return e, err
}

// Plan implements inspect.Service.
func (o *objectSource) Plan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	s, err := o.service(ctx)
	if err != nil {
		return inspect.Changes{}, err
	}
	return s.Plan(ctx, change)
}

// Advise implements inspect.Adviser.
func (o *objectSource) Advise(ctx context.Context) (inspect.Advice, error) {
	s, err := o.service(ctx)
	if err != nil {
		return inspect.Advice{}, err
	}
	return s.Advise(ctx)
}

// History implements inspect.Service. It needs no other objects than events.
func (o *objectSource) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	return (&eventHistory{kube: o.kube}).History(ctx, query)
}

// Savings implements inspect.Service. Objects do not say what there was before.
func (o *objectSource) Savings(context.Context, inspect.SavingsQuery) (inspect.Savings, error) {
	return inspect.Savings{}, inspect.UnrecordedError{
		Why: "objects and events do not say what the nodes cost before: only the leader of Dovetail records it", Fix: "dovetail plan --live shows what Dovetail would save from now on",
	}
}
