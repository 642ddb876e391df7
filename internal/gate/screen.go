package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A screen prints lines, and below them how the run stands. On a terminal that part is drawn over and
// over in its place; elsewhere it is a line now and then.
type screen struct {
	mu       sync.Mutex // a signal is announced from another goroutine
	out      io.Writer
	terminal bool
	drawn    []string
}

// statusInterval is how often status is due.
func (s *screen) statusInterval() time.Duration {
	if s.terminal {
		return time.Second / 2
	}
	return 15 * time.Second
}

// print adds lines that stay.
func (s *screen) print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString(s.erase())
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(s.draw())
	fmt.Fprint(s.out, b.String())
}

// status shows how the run stands.
func (s *screen) status(since time.Duration, lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		fmt.Fprintf(s.out, "[%5s] %s\n", clock(since), strings.Join(lines, " | "))
		return
	}
	erased := s.erase()
	s.drawn = nil
	for i, line := range lines {
		if i == len(lines)-1 {
			line = clock(since) + " " + line
		}
		s.drawn = append(s.drawn, line)
	}
	fmt.Fprint(s.out, erased+s.draw())
}

// close removes the status for good.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(s.out, s.erase())
	s.drawn = nil
}

const (
	wrapOff = "\x1b[?7l" // a long line is cut by the terminal, so that it takes one row
	wrapOn  = "\x1b[?7h"
	dim     = "\x1b[2m"
	plain   = "\x1b[0m"
)

func (s *screen) erase() string {
	if len(s.drawn) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", len(s.drawn))
}

func (s *screen) draw() string {
	if len(s.drawn) == 0 {
		return ""
	}
	return wrapOff + dim + strings.Join(s.drawn, "\n") + plain + wrapOn + "\n"
}
