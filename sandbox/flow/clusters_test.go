package flow_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// mode is what a test does to the cluster that it shares with others. Tests of one mode share a cluster, those
// of two modes never do at the same time.
type mode int

const (
	// exclusive: the test replaces the controller, or has pods that any pool may take.
	exclusive mode = iota
	// killsController: the test kills the controller. All tests of this mode must bear that at any moment.
	killsController
	// disturbsAll: the test disturbs AWS or the API server for everybody, for a while.
	disturbsAll
	// disturbsNone: the test disturbs nothing but what is its own.
	disturbsNone
)

// maxClusters is how many clusters there are at most. Each takes some 600 MB.
const maxClusters = 5

// all are the clusters of this test binary.
var all = &clusters{size: map[mode]int{exclusive: 1, killsController: 10, disturbsAll: 10, disturbsNone: 16}, waiting: map[mode][]chan *cluster{}}

// clusters hands out places in clusters to tests, and starts a cluster when a test finds no place.
type clusters struct {
	dir  string
	size map[mode]int // how many tests of a mode share a cluster: they mostly wait

	mu       sync.Mutex
	list     []*cluster
	started  int
	starting bool
	failed   error
	waiting  map[mode][]chan *cluster // closed without a cluster when none can be started
}

// acquireCluster waits until a test may use a cluster, and has it leave at its end.
func (all *clusters) acquireCluster(t *testing.T, m mode) *cluster {
	t.Helper()
	mine := make(chan *cluster, 1)
	all.mu.Lock()
	all.waiting[m] = append(all.waiting[m], mine)
	all.assignClusters()
	all.mu.Unlock()
	select {
	case c := <-mine:
		if c == nil {
			t.Fatalf("no cluster: %v", all.failed)
		}
		began := time.Now()
		t.Cleanup(func() {
			t.Logf("%s in cluster %d", time.Since(began).Round(time.Second/10), c.number)
			all.releaseCluster(c)
		})
		return c
	case <-t.Context().Done():
		t.Fatal("the tests ended before this one began")
	}
	return nil
}

func (all *clusters) releaseCluster(c *cluster) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.inside--
	all.assignClusters()
}

// assignClusters gives free places to the tests that wait, the first first, and has a cluster started if that is not
// enough. The clusters must be locked.
func (all *clusters) assignClusters() {
	for _, c := range all.list {
		if c.inside == 0 {
			c.mode = all.mostWanted(c)
		}
		for len(all.waiting[c.mode]) > 0 && c.inside < all.size[c.mode] {
			c.inside++
			all.waiting[c.mode][0] <- c
			all.waiting[c.mode] = all.waiting[c.mode][1:]
		}
	}
	left := 0
	for _, list := range all.waiting {
		left += len(list)
	}
	if left > 0 && all.started < maxClusters && !all.starting {
		all.started++
		all.starting = true
		go all.start(all.started)
	}
}

// mostWanted is what a cluster that is empty should become: of a mode that has no cluster, so that no mode is left
// for the end, else of the mode with the longest queue for its places.
func (all *clusters) mostWanted(empty *cluster) mode {
	queue := func(m mode) float64 {
		places := 0
		for _, c := range all.list {
			if c != empty && c.mode == m && c.inside > 0 {
				places += all.size[m]
			}
		}
		if waiting := float64(len(all.waiting[m])); waiting == 0 || places > 0 {
			return waiting / float64(places+all.size[m])
		}
		return math.Inf(1)
	}
	return slices.MaxFunc([]mode{exclusive, killsController, disturbsAll, disturbsNone}, func(a, b mode) int { return cmp.Compare(queue(a), queue(b)) })
}

// start adds a cluster. Where the first cannot be started, no test can run.
func (all *clusters) start(number int) {
	c, err := startCluster(context.Background(), filepath.Join(all.dir, fmt.Sprint(number)), number)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.starting = false
	if err != nil {
		all.failed = err
		if len(all.list) == 0 {
			for m, list := range all.waiting {
				for _, mine := range list {
					close(mine)
				}
				all.waiting[m] = nil
			}
		}
		return
	}
	all.list = append(all.list, c)
	all.assignClusters()
}
