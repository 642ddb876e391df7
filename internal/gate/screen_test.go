package main

import (
	"strings"
	"testing"
	"time"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := &screen{out: &b}
	s.print("started")
	s.status(75*time.Second, []string{"lint 0:10", "1 of 2 steps done"})
	s.print("passed")
	s.close()
	if want := "started\n[ 1:15] lint 0:10 | 1 of 2 steps done\npassed\n"; b.String() != want {
		t.Errorf("without a terminal:\n%q, want\n%q", b.String(), want)
	}
}

// On a terminal every line stays but the status, which is erased before anything is printed.
func TestTerminal(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := &screen{out: &b, terminal: true}
	s.print("started")
	s.status(time.Second, []string{"lint 0:10", "1 of 2"})
	s.status(2*time.Second, []string{"1 of 2"})
	s.print("passed")
	s.close()
	draw := func(lines string) string { return wrapOff + dim + lines + plain + wrapOn + "\n" }
	want := "started\n" + draw("lint 0:10\n0:01 1 of 2") + "\x1b[2A\r\x1b[J" + draw("0:02 1 of 2") +
		"\x1b[1A\r\x1b[J" + "passed\n" + draw("0:02 1 of 2") + "\x1b[1A\r\x1b[J"
	if b.String() != want {
		t.Errorf("on a terminal:\n%q, want\n%q", b.String(), want)
	}
}
