package check_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// after is a limit of so many polls, and how often it was polled.
func after(polls int64) (stop func() bool, polled *atomic.Int64) {
	polled = &atomic.Int64{}
	return func() bool { return polled.Add(1) > polls }, polled
}

// Trust C04: wherever a search is cut, what it found until then obeys every rule, and nothing is said of nodes that was
// not found out.
func TestTrust_C04_WhatACutSearchFoundIsValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		count, polled := after(1 << 40)
		whole := solve.Consolidate(q, count)
		stays := map[string]reason.Code{}
		for _, k := range whole.Kept {
			stays[k.Node] = k.Why.Code
		}
		cut, _ := after(rapid.Int64Range(0, polled.Load()).Draw(t, "polls"))
		result := solve.Consolidate(q, cut)
		if found := check.Consolidation(q, result); len(found) > 0 {
			t.Fatalf("%v\nanswer %s\nquestion %s", found, describe(result), describe(q))
		}
		for _, k := range result.Kept {
			if k.Why.Code == reason.PodsStranded && stays[k.Node] == reason.NothingCheaper {
				t.Fatalf("%s: %s; with more time: %s\nquestion %s", k.Node, k.Why.Text(), stays[k.Node], describe(q))
			}
		}
	})
}

// Trust C04: moves that are judged again on another cluster are judged as if one after another were tried on the good ones
// before it, and one bad move among many costs one more look at those before it.
func TestTrust_C04_MovesAreJudgedAgain(t *testing.T) {
	t.Parallel()
	bad := 0
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		moves := solve.Consolidate(q, never).Moves
		lost := rapid.SampledFrom(q.View.Nodes).Draw(t, "lost").Name
		q.View, _ = q.View.Without(lost)
		want, good := map[int]check.Violation{}, []solve.Move(nil)
		for i := range moves {
			for _, v := range check.Consolidation(q, solve.Consolidation{Moves: append(slices.Clone(good), moves[i])}) {
				if v.Code != check.SavesWrong && v.Code != check.MovedWrong && strings.HasPrefix(v.Subject, "moves[") {
					want[i] = v
					break
				}
			}
			if _, is := want[i]; !is {
				good = append(good, moves[i])
			}
		}
		count, polled := after(1 << 40)
		got, upTo := check.FilterMoves(q, moves, count)
		if fmt.Sprint(slices.Sorted(maps.Keys(got))) != fmt.Sprint(slices.Sorted(maps.Keys(want))) || upTo != len(moves) {
			t.Fatalf("bad are %v up to %d, want %v\nquestion %s", got, upTo, want, describe(q))
		}
		if most := (len(got) + 1) * len(moves); polled.Load() > int64(most) {
			t.Fatalf("%d of %d moves are bad, and %d looks were taken", len(got), len(moves), polled.Load())
		}
		bad += len(got)
		cut, _ := after(rapid.Int64Range(0, polled.Load()).Draw(t, "polls"))
		some, upTo := check.FilterMoves(q, moves, cut)
		for i := range upTo {
			if _, is := some[i]; is != (want[i].Code != "") {
				t.Fatalf("cut at %d: bad are %v, want %v", upTo, some, want)
			}
		}
	})
	if bad == 0 {
		t.Error("no move was bad, so nothing was tested")
	}
}
