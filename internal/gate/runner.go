package main

import (
	"context"
	"fmt"
	"time"
)

// A runner runs the steps of a board and shows what happens.
type runner struct {
	board   *board
	shell   *shell
	screen  *screen
	verbose bool
	now     func() time.Time
}

// run runs every step it may, and returns when none is running any more. It ends what runs when the
// context ends.
func (r *runner) run(ctx context.Context) {
	messages := make(chan message, 1000)
	send := func(m message) { messages <- m }
	tick := time.NewTicker(r.screen.statusInterval())
	defer tick.Stop()
	active := 0
	for {
		if ctx.Err() == nil {
			for _, s := range r.board.next() {
				r.board.start(s, r.now())
				r.printLine("start", s, s.about)
				active++
				go r.shell.run(ctx, s, send)
			}
		}
		if active == 0 {
			return
		}
		select {
		case m := <-messages:
			if m.ended != nil {
				active--
			}
			r.fileMessage(ctx, m)
		case <-tick.C:
			r.screen.status(r.since(), r.board.status(r.now()))
		}
	}
}

// fileMessage files a message and prints what is news in it.
func (r *runner) fileMessage(ctx context.Context, m message) {
	run := r.board.runs[m.step.name]
	run.command = m.command
	if m.ended != nil {
		fresh := r.board.fileEnding(m.step, *m.ended, r.now())
		r.printFailures(m.step, fresh)
		r.printLine(r.board.resultWord(m.step), m.step, r.endingText(m.step))
		return
	}
	if m.line == nil || ctx.Err() != nil {
		return // what a process says when it is ended is no result
	}
	done := len(run.results.done)
	fresh := r.board.fileLine(m.step, *m.line, r.now())
	if r.verbose {
		for _, p := range run.results.done[done:] {
			r.printLine(okOrFail(p), m.step, fmt.Sprintf("%s %d tests, %s", m.step.relative(p.name), p.tests, shortDuration(p.took)))
		}
	}
	r.printFailures(m.step, fresh)
}

func okOrFail(p packageResult) string {
	switch {
	case !p.ok:
		return "FAIL"
	case p.cached:
		return "cached"
	}
	return "ok"
}

func (r *runner) endingText(s step) string {
	run := r.board.runs[s.name]
	text := fmt.Sprintf("%s, CPU %s", shortDuration(run.wall), shortDuration(run.cpu))
	if s.isTest() {
		text += fmt.Sprintf(", %d tests", run.results.tests())
	}
	return text
}

func (r *runner) printFailures(s step, failures []failure) {
	for i := range failures {
		f := &failures[i]
		r.screen.print(f.text(s.name, s.short(f.pkg), logName(r.shell.logs, s.name))...)
	}
}

func (r *runner) printLine(what string, s step, text string) {
	r.screen.print(fmt.Sprintf("[%5s] %-7s %-14s %s", clock(r.since()), what, s.name, text))
}

func (r *runner) since() time.Duration { return r.now().Sub(r.board.began) }
