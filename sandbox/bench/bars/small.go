package bars

import (
	"context"
	"fmt"
	"time"
)

const (
	smallPools = 3
	smallPods  = 50
	settle     = 20 * time.Second // after the last pod runs, before anything is measured

	smallMemory = 256 * mib
	smallCPU    = 100 // millicores
)

// smallNeeds has the memory limit that the chart passes on for such a cluster (S-033).
func smallNeeds(Options) setting {
	return setting{speed: 20, manifests: plainPools(smallPools), flags: []string{fmt.Sprintf("--memory-limit=%d", smallMemory)}}
}

// small watches a cluster in which everything runs.
func small(ctx context.Context, s *stage, r *Result) error {
	if err := s.deploy(ctx, work{name: "bench", replicas: smallPods, cpu: "500m", memory: "1Gi", team: -1}); err != nil {
		return err
	}
	if err := s.allRun(ctx, smallPods); err != nil {
		return err
	}
	if err := s.pause(ctx, settle); err != nil {
		return err
	}
	api, _ := s.traffic.since(mark{})
	s.say("%d pods run on %d nodes; watching for %s", smallPods, len(of(api, createClaim)), s.Watch)
	from, err := s.use()
	if err != nil {
		return err
	}
	before := s.traffic.now()
	if err := s.pause(ctx, s.Watch); err != nil {
		return err
	}
	to, err := s.use()
	if err != nil {
		return err
	}
	later, calls := s.traffic.since(before)
	r.add("nodes", float64(len(of(api, createClaim))), unitCount)
	r.bar("CPU", millicores(from, to), unitMillicores, smallCPU)
	r.bar("memory at the end", float64(to.rss), unitBytes, smallMemory)
	r.bar("memory, peak since the start", float64(to.peak), unitBytes, smallMemory)
	r.add("requests to the API server per minute", float64(len(later))/to.at.Sub(from.at).Minutes(), unitCount)
	r.add("calls of AWS per minute", float64(len(calls))/to.at.Sub(from.at).Minutes(), unitCount)
	r.API, r.AWS = tally(later), tally(calls)
	return s.profile(ctx, "heap", "heap")
}

// allRun waits until so many pods run.
func (s *stage) allRun(ctx context.Context, pods int) error {
	return s.await(ctx, "all pods running", func() (string, bool, error) {
		n := s.pods.count(phaseRunning)
		return fmt.Sprintf("%d of %d pods run", n, pods), n >= pods, nil
	})
}
