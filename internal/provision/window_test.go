package provision

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SC-04: when windows open and close.
func TestWindows(t *testing.T) {
	t.Parallel()
	type arrival struct {
		at  time.Duration
		uid string
	}
	stream := []arrival{}
	for i := range 40 {
		stream = append(stream, arrival{time.Duration(i) * 500 * time.Millisecond, strconv.Itoa(i)})
	}
	for name, tc := range map[string]struct {
		arrivals []arrival
		want     time.Duration // after the first
	}{
		"one pod closes after the idle time":              {arrivals: []arrival{{0, "a"}}, want: time.Second},
		"a new pod extends the window":                    {arrivals: []arrival{{0, "a"}, {600 * time.Millisecond, "b"}}, want: 1600 * time.Millisecond},
		"the same pod again does not":                     {arrivals: []arrival{{0, "a"}, {600 * time.Millisecond, "a"}}, want: time.Second},
		"a stream of new pods is cut at the longest time": {arrivals: stream, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			w := Window{Idle: time.Second, Max: 10 * time.Second}
			for _, a := range tc.arrivals {
				now := start.Add(a.at)
				if a.at >= tc.want {
					break // it is closed
				}
				if w.Close(now) {
					t.Fatalf("the window closed after %s", a.at)
				}
				if w.Trigger(types.UID(a.uid), now); w.Open(now) != (a.at == 0) {
					t.Errorf("a window opened after %s", a.at)
				}
			}
			if got := w.Closes().Sub(start); got != tc.want {
				t.Errorf("the window closes after %s, want %s", got, tc.want)
			}
			if w.Close(start.Add(tc.want-1)) || !w.Close(start.Add(tc.want)) || w.Close(start.Add(tc.want)) {
				t.Error("the window does not close once, when it is time")
			}
			if w.Open(start.Add(tc.want)) {
				t.Error("what was served opens another window")
			}
		})
	}
}

// A process that does not lead hears of pods for weeks and never plans: reasons for a plan must not pile up there. When it leads,
// one window covers everybody.
func TestWindowKeepsOneTriggerWhileClosed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := Window{Idle: time.Second, Max: 10 * time.Second}
	for i := range 1000 {
		if news := w.Trigger(types.UID(strconv.Itoa(i)), start); news != (i == 0) {
			t.Fatalf("trigger %d is news: %v", i, news)
		}
	}
	if n := len(w.seen); n != 1 {
		t.Errorf("%d triggers are kept, want one", n)
	}
	leads := start.Add(time.Hour)
	if !w.Open(leads) || w.Closes() != leads.Add(time.Second) {
		t.Errorf("the window closes at %s, want a second after it was opened", w.Closes())
	}
	if w.Drop(); w.Open(leads) {
		t.Error("a window opens for what was dropped")
	}
}

func TestSC_52_NominationPeriod(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]time.Duration{time.Second: 10 * time.Second, 5 * time.Second: 10 * time.Second, 10 * time.Second: 20 * time.Second} {
		if got := NominationPeriod(window); got != want {
			t.Errorf("NominationPeriod(%s) = %s, want %s", window, got, want)
		}
	}
}
