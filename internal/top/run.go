package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Options say how the view runs.
type Options struct {
	Interval    time.Duration // between a response and the next request; 0: the cluster cannot change
	In          io.Reader     // a terminal; nil: the controlling terminal
	Out         io.Writer     // a terminal
	Environment []string      // KEY=VALUE; for example NO_COLOR=1
}

// Deadlines of requests.
const (
	fleetTimeout = 30 * time.Second
	planTimeout  = 5 * time.Minute
)

// Run shows the view until the user quits. The terminal is then as it was before, also after a signal or a panic.
func Run(ctx context.Context, s inspect.Service, o Options) error {
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environment)}
	if o.In != nil {
		options = append(options, tea.WithInput(o.In))
	}
	_, err := tea.NewProgram(newModel(requestsTo(ctx, s, time.Now), o.Interval), options...).Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil // Ctrl-C from outside
	}
	if err != nil {
		return fmt.Errorf("the terminal view ended: %w; `dovetail top | cat` prints the same without it", err)
	}
	return nil
}

// requestsTo makes the commands of a Model from a Service and the clock.
func requestsTo(ctx context.Context, s inspect.Service, clock func() time.Time) requests {
	return requests{
		begin: func() tea.Msg { return tickMsg{now: clock()} },
		tick: func() tea.Msg { // the timer begins with the command, not with this function
			return tea.Tick(time.Second, func(now time.Time) tea.Msg { return tickMsg{now: now} })()
		},
		fleet: func() tea.Msg {
			ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
			defer cancel()
			begin := clock()
			f, err := s.Fleet(ctx)
			return fleetMsg{response: answer(begin, clock(), err), fleet: f}
		},
		plan: func() tea.Msg {
			ctx, cancel := context.WithTimeout(ctx, planTimeout)
			defer cancel()
			begin := clock()
			c, err := s.Plan(ctx, inspect.WhatIf{})
			return planMsg{response: answer(begin, clock(), err), changes: c}
		},
		explain: func(about inspect.Subject) tea.Cmd {
			return func() tea.Msg {
				ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
				defer cancel()
				begin := clock()
				e, err := s.Explain(ctx, about)
				msg := explainMsg{response: answer(begin, clock(), err), about: about}
				if err == nil {
					msg.document = e.Document()
				}
				return msg
			}
		},
	}
}

func answer(begin, end time.Time, err error) response {
	return response{at: end, took: end.Sub(begin), err: err}
}
