package main

import (
	"slices"
	"time"
)

// A state is how far a step is.
type state int

const (
	waiting state = iota
	running
	passed
	unchanged // not run: it passed over the same inputs before
	failed
	timeUp  // stopped, as it was meant to be, when the time for exploring was over
	stopped // by a signal
)

func (s state) ended() bool { return s >= passed }

// rules are what may run beside what.
type rules struct {
	lanes     int  // 1 runs all steps one after the other
	keepGoing bool // start steps after one has failed, as far as they do not need it
}

// next returns the steps to start now, given how far every step is. A lane takes its steps in the order
// of the list and does not overtake: a step that has to wait for another lane holds its own up, so that
// the order of a run is that of the table.
func next(steps []step, states map[string]state, r rules) []step {
	busy := map[lane]bool{}
	for _, s := range steps {
		switch states[s.name] {
		case running:
			busy[r.laneOf(s)] = true
		case failed:
			if !r.keepGoing {
				return nil
			}
		case stopped:
			return nil
		case waiting, passed, unchanged, timeUp:
		}
	}
	var start []step
	for _, s := range steps {
		if states[s.name] != waiting || blocked(steps, states, s) {
			continue
		}
		l := r.laneOf(s)
		if !busy[l] && ready(steps, states, s) {
			start = append(start, s)
		}
		busy[l] = true
	}
	return start
}

func (r rules) laneOf(s step) lane {
	if r.lanes <= 1 {
		return laneCPU
	}
	return s.lane
}

// ready says whether all that comes before a step has ended. What is not part of the run is not waited for.
func ready(steps []step, states map[string]state, s step) bool {
	before := slices.Concat(s.needs, s.after)
	return !slices.ContainsFunc(steps, func(other step) bool {
		if !slices.Contains(before, other.name) {
			return false
		}
		// A step that can never run holds nothing up.
		return !states[other.name].ended() && (states[other.name] == running || !blocked(steps, states, other))
	})
}

// blocked says whether a step can never run, because something it needs failed or is blocked itself.
func blocked(steps []step, states map[string]state, s step) bool {
	return slices.ContainsFunc(steps, func(other step) bool {
		return slices.Contains(s.needs, other.name) &&
			(states[other.name] == failed || states[other.name] == waiting && blocked(steps, states, other))
	})
}

// remaining estimates how long a run still takes: the lane with most to do, or all of them when they
// run one after the other. ran is how long each running step has taken so far.
func remaining(steps []step, states map[string]state, usual, ran map[string]time.Duration, r rules) time.Duration {
	left := map[lane]time.Duration{}
	for _, s := range steps {
		expected, known := usual[s.name]
		if !known {
			expected = s.usually
		}
		switch states[s.name] {
		case waiting:
			left[r.laneOf(s)] += expected
		case running:
			left[r.laneOf(s)] += max(0, expected-ran[s.name])
		case passed, unchanged, failed, timeUp, stopped:
		}
	}
	return max(left[laneCPU], left[laneCluster])
}
