package parallel_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/parallel"
)

func TestEachCallsEveryIndexOnce(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{0, 1, 2, 7, 100} {
		calls := make([]atomic.Int32, 50)
		parallel.Each(len(calls), workers, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Errorf("%d workers: index %d was called %d times", workers, i, n)
			}
		}
	}
}

// panicOf returns what Each panics with on the goroutine of the test.
func panicOf(n, workers int, f func(i int)) (value any) {
	defer func() { value = recover() }()
	parallel.Each(n, workers, f)
	return nil
}

func brokenRule(i int) { panic(i) }

// EX-40: a panic of a worker reaches the caller, who can recover: the lowest index, however many workers there are, with the
// stack of where it happened.
func TestEX_40_PanicsReachTheCaller(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{2, 3, 8, 50} {
		for range 200 {
			value := panicOf(50, workers, func(i int) {
				if i%7 == 5 {
					brokenRule(i)
				}
			})
			p, is := value.(*parallel.Panic)
			if !is || p.Value != 5 || !strings.Contains(p.Error(), "brokenRule") || !strings.HasPrefix(p.Error(), "5\n") {
				t.Fatalf("%d workers: got %v, want 5 with the stack of brokenRule", workers, value)
			}
		}
	}
	if value := panicOf(3, 1, brokenRule); value != 0 {
		t.Errorf("one worker: got %v, want 0 as it is", value)
	}
}

// A panic of a worker of a worker keeps its own stack.
func TestPanicsOfInnerCallsKeepTheirStack(t *testing.T) {
	t.Parallel()
	value := panicOf(2, 2, func(int) { parallel.Each(2, 2, brokenRule) })
	if p, is := value.(*parallel.Panic); !is || p.Value != 0 || strings.Count(p.Error(), "on a goroutine of a plan") != 1 || !strings.Contains(p.Error(), "brokenRule") {
		t.Errorf("got %v", value)
	}
}
