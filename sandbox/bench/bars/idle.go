package bars

import (
	"context"
	"fmt"
	"time"
)

const (
	smallPools = 3
	smallPods  = 50
	quietTime  = 20 * time.Second // after the last pod runs, before anything is measured

	smallMemory = 256 * mib
	smallCPU    = 100 // millicores
)

// smallNeeds has the memory limit that the chart passes on for such a cluster (S-033).
func smallNeeds(Options) setting {
	return setting{speed: 20, manifests: plainPools(smallPools), flags: []string{fmt.Sprintf("--memory-limit=%d", smallMemory)}}
}

// measureIdleCluster watches a cluster in which everything runs.
func measureIdleCluster(ctx context.Context, s *stage, r *Result) error {
	if err := s.deploy(ctx, work{name: "bench", replicas: smallPods, cpu: "500m", memory: "1Gi", team: -1}); err != nil {
		return err
	}
	if err := s.allRun(ctx, smallPods); err != nil {
		return err
	}
	if err := s.sleepContext(ctx, quietTime); err != nil {
		return err
	}
	api, _ := s.traffic.exchangesSince(mark{})
	s.logProgress("%d pods run on %d nodes; watching for %s", smallPods, len(exchangesOfKind(api, createClaim)), s.Watch)
	from, err := s.controllerUsage()
	if err != nil {
		return err
	}
	before := s.traffic.markNow()
	if err := s.sleepContext(ctx, s.Watch); err != nil {
		return err
	}
	to, err := s.controllerUsage()
	if err != nil {
		return err
	}
	later, calls := s.traffic.exchangesSince(before)
	r.add("nodes", float64(len(exchangesOfKind(api, createClaim))), unitCount)
	r.addLimit("CPU", averageMillicores(from, to), unitMillicores, smallCPU)
	r.addLimit("memory at the end", float64(to.rss), unitBytes, smallMemory)
	r.addLimit("memory, peak since the start", float64(to.peak), unitBytes, smallMemory)
	r.add("requests to the API server per minute", float64(len(later))/to.at.Sub(from.at).Minutes(), unitCount)
	r.add("calls of AWS per minute", float64(len(calls))/to.at.Sub(from.at).Minutes(), unitCount)
	r.API, r.AWS = countExchanges(later), countExchanges(calls)
	return s.saveProfile(ctx, "heap", "heap")
}

// allRun waits until so many pods run.
func (s *stage) allRun(ctx context.Context, pods int) error {
	return s.waitUntil(ctx, "all pods running", func() (string, bool, error) {
		n := s.pods.count(phaseRunning)
		return fmt.Sprintf("%d of %d pods run", n, pods), n >= pods, nil
	})
}
