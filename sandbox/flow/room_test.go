package flow_test

import (
	"sync"
	"testing"
	"time"
)

// mode is what a test does to the world that all share. Tests of one mode run side by side, those of two
// modes never do.
type mode int

const (
	// alone: the test replaces the controller, or has pods that any pool may take.
	alone mode = iota
	// crash: the test kills the controller. All tests of this mode must bear that at any moment.
	crash
	// weather: the test disturbs AWS or the API server for everybody, for a while.
	weather
	// calm: the test disturbs nothing but what is its own.
	calm
)

// room says how many tests of a mode are in the world at once. They mostly wait, so that the cores do not
// matter much.
var room = &rooms{size: map[mode]int{alone: 1, crash: 10, weather: 16, calm: 16}, waiting: map[mode]int{}, free: make(chan struct{})}

// rooms let tests of one mode in at a time.
type rooms struct {
	size map[mode]int

	mu      sync.Mutex
	now     mode
	inside  int
	waiting map[mode]int
	free    chan struct{} // closed when somebody leaves
}

// enter waits until a test may use the world, and has it leave at its end.
func (r *rooms) enter(t *testing.T, m mode) {
	t.Helper()
	r.mu.Lock()
	r.waiting[m]++
	for !r.admits(m) {
		free := r.free
		r.mu.Unlock()
		select {
		case <-free:
		case <-t.Context().Done():
			t.Fatal("the tests ended before this one began")
		}
		r.mu.Lock()
	}
	r.waiting[m]--
	r.now = m
	r.inside++
	r.mu.Unlock()
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("%s in the world", time.Since(began).Round(time.Second/10))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inside--
		close(r.free)
		r.free = make(chan struct{})
	})
}

// admits reports whether a test may go in. An empty world goes to the first mode that somebody waits for.
func (r *rooms) admits(m mode) bool {
	if r.inside > 0 {
		return r.now == m && r.inside < r.size[m]
	}
	if r.waiting[r.now] > 0 {
		return r.now == m
	}
	for other := range m {
		if r.waiting[other] > 0 {
			return false
		}
	}
	return true
}
