package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Options say how the view runs.
type Options struct {
	Interval    time.Duration // between a response and the next request; 0: the cluster cannot change
	Timeout     time.Duration // of a request
	In          io.Reader     // a terminal; nil: the controlling terminal
	Out         io.Writer     // a terminal
	Environment []string      // KEY=VALUE; for example NO_COLOR=1
}

// Run shows the view until the user quits. The terminal is then as it was before, also after a signal or a panic.
func Run(ctx context.Context, s inspect.Service, o Options) error {
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environment)}
	if o.In != nil {
		options = append(options, tea.WithInput(o.In))
	}
	requests, panics := requestsTo(ctx, s, o.Timeout, time.Now), &panicGuard{}
	explain := requests.explain
	requests.fleet, requests.plan = panics.guard(requests.fleet), panics.guard(requests.plan)
	requests.explain = func(about inspect.Subject) tea.Cmd { return panics.guard(explain(about)) }
	_, err := tea.NewProgram(newModel(requests, o.Interval), options...).Run()
	if p := panics.first.Load(); p != nil {
		return fmt.Errorf("the terminal view ended because of a defect, please report it: %s", *p)
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil // Ctrl-C from outside
	}
	if err != nil {
		return fmt.Errorf("the terminal view ended: %w; `dovetail top | cat` prints the same without it", err)
	}
	return nil
}

// panicGuard ends the view when a request panics, and keeps the first panic. The library would restore the terminal as well, but
// prints the panic in another goroutine, so that it is lost if the program ends first.
type panicGuard struct{ first atomic.Pointer[string] }

func (g *panicGuard) guard(request tea.Cmd) tea.Cmd {
	return func() (msg tea.Msg) {
		defer func() {
			if p := recover(); p != nil {
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				g.first.CompareAndSwap(nil, &text)
				msg = tea.QuitMsg{}
			}
		}()
		return request()
	}
}

// requestsTo makes the commands of a Model from a Service and the clock.
func requestsTo(ctx context.Context, s inspect.Service, timeout time.Duration, clock func() time.Time) requests {
	// send runs one request, and says when it ended and how long it took.
	send := func(request func(context.Context) error) response {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		begin := clock()
		err := request(ctx)
		end := clock()
		return response{at: end, took: end.Sub(begin), err: err}
	}
	return requests{
		begin: func() tea.Msg { return tickMsg{now: clock()} },
		tick: func() tea.Msg { // the timer begins with the command, not with this function
			return tea.Tick(time.Second, func(now time.Time) tea.Msg { return tickMsg{now: now} })()
		},
		fleet: func() tea.Msg {
			var msg fleetMsg
			msg.response = send(func(ctx context.Context) (err error) {
				msg.fleet, err = s.Fleet(ctx)
				return err
			})
			return msg
		},
		plan: func() tea.Msg {
			var msg planMsg
			msg.response = send(func(ctx context.Context) (err error) {
				msg.changes, err = s.Plan(ctx, inspect.WhatIf{})
				return err
			})
			return msg
		},
		explain: func(about inspect.Subject) tea.Cmd {
			return func() tea.Msg {
				msg := explainMsg{about: about}
				msg.response = send(func(ctx context.Context) error {
					e, err := s.Explain(ctx, about)
					if err == nil {
						msg.document = e.Document()
						if len(e.Notes) > 0 {
							msg.document.Sections = append(msg.document.Sections, inspect.Section{Title: "Missing from the response", Lines: e.Notes})
						}
					}
					return err
				})
				return msg
			}
		},
	}
}
