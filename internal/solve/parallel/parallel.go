package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Panic is what a call on another goroutine panicked with, and where.
type Panic struct {
	Value any
	Stack []byte
}

// Error has the value in its first line, and the stack below it.
func (p *Panic) Error() string {
	return fmt.Sprintf("%v\n\non a goroutine of a plan:\n%s", p.Value, p.Stack)
}

// Each calls f for 0 to n-1 on up to workers goroutines. Calls must not depend on each other: results
// are kept by index, so that the number of workers never shows. If calls panic, Each panics on the goroutine of its caller,
// who may recover, with that of the lowest index: it is the one that a single worker would meet.
func Each(n, workers int, f func(i int)) {
	if workers <= 1 || n <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	panics := make([]*Panic, n)
	for range min(n, workers) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if panics[i] = caught(f, int(i)); panics[i] != nil {
					next.Store(int64(n)) // calls of lower indexes have begun; later ones are not needed
				}
			}
		})
	}
	group.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// caught calls f for an index and returns what it panicked with; nil: it did not.
func caught(f func(i int), i int) (p *Panic) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case *Panic: // of a call inside this one: its stack is the one that matters
			p = value
		default:
			p = &Panic{Value: value, Stack: debug.Stack()}
		}
	}()
	f(i)
	return nil
}
