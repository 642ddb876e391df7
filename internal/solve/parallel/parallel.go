package parallel

import (
	"sync"
	"sync/atomic"
)

// Each calls f for 0 to n-1 on up to workers goroutines. Calls must not depend on each other: results
// are kept by index, so that the number of workers never shows.
func Each(n, workers int, f func(i int)) {
	if workers <= 1 || n <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, workers) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	group.Wait()
}
