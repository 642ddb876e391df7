package app

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

// gate is an output that can be shut.
type gate struct {
	mu    sync.Mutex
	open  chan struct{} // closed: lines pass
	lines []string
}

func (g *gate) Write(text []byte) (int, error) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, strings.TrimSpace(string(text)))
	return len(text), nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) written() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines
}

// FM N17: no process reads the log. However much loops log, they are held up for less than a second; when
// a client reads again, what was kept comes, then how much is missing, and lines are waited for again.
func TestFM_N17_LogWithoutReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		p := &pipe{out: g, notice: func(lost int) []byte { return fmt.Appendf(nil, "%d missing\n", lost) }}
		close(g.open)
		say := func(text string) { _, _ = p.Write([]byte(text + "\n")) }
		say("all is well")
		if n := len(g.written()); n != 1 {
			t.Fatalf("%d lines were written when Write returned, want one", n)
		}

		g.shut()
		const loops, each = 10, 1000
		start := time.Now()
		longest := make([]time.Duration, loops)
		var wait sync.WaitGroup
		for i := range loops {
			wait.Go(func() {
				for k := range each {
					say(fmt.Sprintf("loop %d line %d", i, k))
				}
				longest[i] = time.Since(start)
			})
		}
		wait.Wait()
		for i, took := range longest {
			if took > time.Second {
				t.Errorf("loop %d was held up for %v", i, took)
			}
		}
		time.Sleep(10 * time.Minute)
		if say("still stuck"); time.Since(start) != 10*time.Minute+logPatience {
			t.Errorf("a line waited for %v although the output is known to be stuck", time.Since(start)-10*time.Minute)
		}

		close(g.open)
		synctest.Wait()
		lines := g.written()
		missing := loops*each + 1 - (logBacklog + 1) // one line was on its way
		if want := fmt.Sprintf("%d missing", missing); len(lines) != 1+logBacklog+1+1 || lines[len(lines)-1] != want {
			t.Errorf("%d lines, the last is %q; want %d and %q", len(lines), lines[len(lines)-1], 1+logBacklog+1+1, want)
		}
		say("well again")
		if now := g.written(); now[len(now)-1] != "well again" {
			t.Errorf("the last line is %q when Write returned", now[len(now)-1])
		}
	})
}

// A slow output that keeps up is no reason to leave anything out.
func TestSlowOutputLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		count := 0
		p := &pipe{out: writer(func(text []byte) (int, error) {
			time.Sleep(time.Second)
			count++
			return len(text), nil
		})}
		for range 100 {
			_, _ = p.Write([]byte("line\n"))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if count != 100 {
			t.Errorf("%d lines, want all 100", count)
		}
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }

// What is said about missing lines has the form of every other line.
func TestMissingLinesAreReported(t *testing.T) {
	t.Parallel()
	line := string(lostLinesNotice(zapcore.NewJSONEncoder(encoding()), "abc")(7))
	for _, want := range []string{`"level":"WARN"`, `"logger":"controller"`, `"lines":7`, `"commit":"abc"`, "lines are missing"} {
		if !strings.Contains(line, want) {
			t.Errorf("line %s lacks %s", line, want)
		}
	}
}
