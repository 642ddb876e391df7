package bars

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	shrinkPods   = 1800 // fill about 300 nodes
	shrinkStay   = 0.34 // the share of the pods that stays
	shrinkBudget = 10   // percent of the nodes that may go at a time
	mostlyLeft   = 0.05 // the share of what is saved that is left to save when most is done

	shrinkMemory   = 400 * mib
	shrinkCPU      = 1000 // millicores
	shrinkDecision = 2 * time.Second

	// restAfter is how long no node comes or goes before the cluster is at rest: longer than a quiet time
	// of ten seconds, whose writes may take ten more, and a pass of the loop.
	restAfter = 45 * time.Second
	sampling  = time.Second

	evictPod = "create pods/eviction"
)

// shrinkTypes are few and alike, so that the number of nodes is known, and have a smaller size for what is
// left over.
func shrinkTypes() []string {
	return []string{"c5.large", "m5.large", "r5.large", "c5.xlarge", "m5.xlarge", "r5.xlarge"}
}

// shrinkNeeds leaves consolidation to its defaults: consolidateAfter of the pool says when nodes may go.
func shrinkNeeds(o Options) setting {
	return setting{
		speed: 1, quick: true, large: true, metrics: true, addresses: o.scaledCount(shrinkPods), manifests: nodeClass() + pool{types: shrinkTypes()}.poolManifest(),
		flags: []string{fmt.Sprintf("--memory-limit=%d", installMemory)},
	}
}

// shrinkWork has pods of several shapes, so that what is left on each node differs.
func shrinkWork(pods int) []work {
	sizes := []struct{ cpu, memory string }{{"250m", "512Mi"}, {"500m", "1Gi"}, {"1", "2Gi"}, {"500m", "3Gi"}, {"750m", "1536Mi"}}
	var list []work
	for i, size := range sizes {
		replicas := pods*(i+1)/len(sizes) - pods*i/len(sizes)
		list = append(list, work{name: fmt.Sprintf("bench-%03d", i), replicas: replicas, cpu: size.cpu, memory: size.memory, team: -1})
	}
	return list
}

// descent is what became of a cluster that is too large.
type descent struct {
	before, after fleet
	began, ended  usage // when it was allowed to shrink, and when the last node had gone
	most          int   // nodes that used up the budget at the same time
	commands      []command
	decisions     histogram
	api, aws      []exchange
}

// measureConsolidation fills a cluster, takes most of its pods away, and lets it be consolidated.
func measureConsolidation(ctx context.Context, s *stage, r *Result) error {
	if err := s.fillNodes(ctx); err != nil {
		return err
	}
	d, err := s.consolidateUntilQuiet(ctx)
	if err != nil {
		return err
	}
	d.reportConsolidation(r)
	return s.saveProfile(ctx, "heap", "heap")
}

// fillNodes leaves every node with few of its pods.
func (s *stage) fillNodes(ctx context.Context) error {
	list := shrinkWork(s.scaledCount(shrinkPods))
	if err := s.deploy(ctx, list...); err != nil {
		return err
	}
	if err := s.allRun(ctx, s.scaledCount(shrinkPods)); err != nil {
		return err
	}
	left := 0
	for _, w := range list {
		stay := max(1, int(float64(w.replicas)*shrinkStay))
		left += stay
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, stay)
		if _, err := s.kube.AppsV1().Deployments(metav1.NamespaceDefault).Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return s.waitUntil(ctx, "pods gone", func() (string, bool, error) {
		return fmt.Sprintf("%d pods, %d are to stay", s.pods.countPods(), left), s.pods.countPods() == left && s.pods.count(phaseRunning) == left, nil
	})
}

// consolidateUntilQuiet lets the pool be consolidated, and follows it until nothing changes any more.
func (s *stage) consolidateUntilQuiet(ctx context.Context) (d descent, err error) {
	if d.before, err = s.readFleet(ctx); err != nil {
		return d, err
	}
	s.logProgress("%d pods on %d nodes for $%.2f/h, %.0f %% used; may shrink now, %d %% at a time", s.pods.countPods(), d.before.nodes, d.before.price, 100*s.usedShare(d.before), shrinkBudget)
	start := s.traffic.markNow()
	if d.began, err = s.controllerUsage(); err != nil {
		return d, err
	}
	counted, err := s.decisionDurations(ctx)
	if err != nil {
		return d, err
	}
	if err := s.allowConsolidation(ctx); err != nil {
		return d, err
	}
	if err := s.toRest(ctx, &d); err != nil {
		return d, err
	}
	s.logProgress("%d nodes for $%.2f/h, %.0f %% used", d.after.nodes, d.after.price, 100*s.usedShare(d.after))
	d.api, d.aws = s.traffic.exchangesSince(start)
	now, err := s.decisionDurations(ctx)
	if err != nil {
		return d, err
	}
	d.decisions = now.minusEarlier(counted)
	d.commands, err = readCommands(s.controller.Log)
	return d, err
}

// allowConsolidation patches the pool.
func (s *stage) allowConsolidation(ctx context.Context) error {
	resource, err := s.world.Kube.Of(nodePool, "")
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"disruption":{"consolidationPolicy":"WhenEmptyOrUnderutilized","consolidateAfter":"10s","budgets":[{"nodes":"%d%%"}]}}}`, shrinkBudget)
	_, err = resource.Patch(ctx, pool{}.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// toRest waits until no node has come or gone for a while.
func (s *stage) toRest(ctx context.Context, d *descent) error {
	var last string
	var looked time.Time
	pods := s.pods.countPods()
	return s.waitUntil(ctx, "the cluster at rest", func() (state string, done bool, err error) {
		if time.Since(looked) >= sampling {
			looked = time.Now()
			now, err := s.readFleet(ctx)
			if err != nil {
				return "", false, err
			}
			if now.shape != last || now.going > 0 {
				last = now.shape
				if d.ended, err = s.controllerUsage(); err != nil {
					return "", false, err
				}
			}
			d.after, d.most = now, max(d.most, now.busy)
		}
		state = fmt.Sprintf("%d nodes, %d of them going, $%.2f/h, %d of %d pods run", d.after.nodes, d.after.going, d.after.price, s.pods.count(phaseRunning), pods)
		return state, time.Since(d.ended.at) > restAfter && s.pods.count(phaseRunning) == pods, nil
	})
}

// reportConsolidation adds all figures.
func (d *descent) reportConsolidation(r *Result) {
	took := d.ended.at.Sub(d.began.at)
	pods, bound := 0, 0.0
	for _, c := range d.commands {
		pods += c.pods
		if c.sums.bound > 0 {
			bound = c.sums.bound
		}
	}
	r.add("nodes before", float64(d.before.nodes), unitCount)
	r.add("nodes after", float64(d.after.nodes), unitCount)
	r.add("cost before", d.before.price, unitPrice)
	r.add("cost after", d.after.price, unitPrice)
	r.add("  no cluster for these pods costs less than", bound, unitPrice)
	r.add("until the last node had gone", took.Seconds(), unitSeconds)
	r.add("waves", float64(countCommandWaves(d.commands)), unitCount)
	r.add("  until 95 % was saved of what is saved in the end", float64(wavesTo(d.commands, d.after.price+mostlyLeft*(d.before.price-d.after.price))), unitCount)
	r.add("  the fewest that the budget allows", float64(fewestWaves(d.before.nodes, d.after.nodes)), unitCount)
	r.add("  commands in them", float64(len(d.commands)), unitCount)
	r.addLimit("nodes going at the same time, most (without those whose instance ends)", float64(d.most), unitCount, math.Ceil(float64(d.before.nodes)*shrinkBudget/100))
	r.add("decisions", d.decisions.count, unitCount)
	r.addLimit("  the longest took at most", d.decisions.largestBucket(), unitSeconds, shrinkDecision.Seconds())
	r.add("  on average", d.decisions.meanSeconds(), unitSeconds)
	r.add("pods that moved, as planned", float64(pods), unitCount)
	r.add("  evictions", float64(len(exchangesOfKind(d.api, evictPod))), unitCount)
	r.addLimit("CPU of the controller meanwhile", averageMillicores(d.began, d.ended), unitMillicores, shrinkCPU)
	r.addLimit("memory, peak since the start", float64(d.ended.peak), unitBytes, shrinkMemory)
	r.add("  at the end", float64(d.ended.rss), unitBytes)
	r.add("requests to the API server", float64(len(d.api)), unitCount)
	r.add("calls of AWS", float64(len(d.aws)), unitCount)
	r.API, r.AWS = countExchanges(d.api), countExchanges(d.aws)
	r.Notes = append(r.Notes, "by decision: "+strings.Join(countByKind(d.commands), ", "))
}

// fewestWaves is how many times the budget must be used up to get from so many nodes to so many.
func fewestWaves(from, to int) int {
	n := 0
	for ; from > to; n++ {
		from -= int(math.Ceil(float64(from) * shrinkBudget / 100))
	}
	return n
}
