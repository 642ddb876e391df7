package check_test

import (
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// after is a limit of so many polls, and how often it was asked.
func after(polls int64) (stop func() bool, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	return func() bool { return asked.Add(1) > polls }, asked
}

// Trust C04: wherever a search is cut, what it found until then obeys every rule, and nothing is said of nodes that was
// not found out.
func TestTrust_C04_WhatACutSearchFoundIsValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		count, asked := after(1 << 40)
		whole := solve.Consolidate(q, count)
		stays := map[string]reason.Code{}
		for _, k := range whole.Kept {
			stays[k.Node] = k.Why.Code
		}
		cut, _ := after(rapid.Int64Range(0, asked.Load()).Draw(t, "polls"))
		answer := solve.Consolidate(q, cut)
		if found := check.Consolidation(q, answer); len(found) > 0 {
			t.Fatalf("%v\nanswer %s\nquestion %s", found, show(answer), show(q))
		}
		for _, k := range answer.Kept {
			if k.Why.Code == reason.PodsStranded && stays[k.Node] == reason.NothingCheaper {
				t.Fatalf("%s: %s; with more time: %s\nquestion %s", k.Node, k.Why.Text(), stays[k.Node], show(q))
			}
		}
	})
}
