package bars

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	burstPods     = 10000
	burstPools    = 100
	burstMemory   = 400 * mib
	burstDecision = 5 * time.Second

	// If pods are placed differently than planned, more nodes are needed. Shares in percent.
	mostLater     = 2
	mostElsewhere = 2
	mostDearer    = 1

	backlogPods   = 15000
	backlogMemory = 512 * mib

	// idleWindow keeps the batch open until the last pod is there: on two cores it takes a minute to make
	// ten thousand pods, and the bar is about all of them at once. The window itself is not measured.
	idleWindow = 8 * time.Second
	maxWindow  = 10 * time.Minute

	installMemory = 1 << 30 // the limit of the install commands (S-033)
)

func burstNeeds(o Options) setting { return largeCluster(o, burstPods, installMemory) }

func backlogNeeds(o Options) setting { return largeCluster(o, backlogPods, backlogMemory) }

// largeCluster is a cluster for many pods.
func largeCluster(o Options, pods, memory int) setting {
	return setting{
		speed: 60, large: true, metrics: true, addresses: o.scaledCount(pods), manifests: mixedPools(o.scaledCount(burstPools)),
		flags: []string{
			fmt.Sprintf("--batch-idle-duration=%s", idleWindow), fmt.Sprintf("--batch-max-duration=%s", maxWindow), fmt.Sprintf("--memory-limit=%d", memory),
		},
	}
}

// scaledCount is a size that the options may have changed.
func (o Options) scaledCount(n int) int { return max(2, int(float64(n)*o.Scale)) }

// wave is what a lot of pods led to.
type wave struct {
	pods      int
	idle      usage // before them
	decided   usage // when the last claim was written
	end       usage // when all run
	requested time.Time
	waiting   time.Time // when the last pod was unschedulable
	running   time.Time // when all run
	first     pass      // the first plan, and what came of it
	claims    []exchange
	later     int // claims of later plans
	taken     int // pods that later plans were for because the scheduler gave their places to others
	landed    landed
	paid      float64 // for the claims of all plans, in dollars an hour
	api, aws  []exchange
}

// firstPlanDuration is how long the first plan took, from the end of the batch to its last claim.
func (w *wave) firstPlanDuration() time.Duration {
	if len(w.claims) == 0 {
		return 0
	}
	return w.claims[len(w.claims)-1].done.Sub(w.first.closed)
}

// createPods makes pods, and follows them until all run.
func (s *stage) createPods(ctx context.Context, pods int) (w wave, err error) {
	w = wave{pods: pods}
	if w.idle, err = s.controllerUsage(); err != nil {
		return w, err
	}
	before := s.traffic.markNow()
	w.requested = time.Now()
	if err := s.deploy(ctx, mixedWork(pods, s.scaledCount(burstPools))...); err != nil {
		return w, err
	}
	if err := s.waitUntil(ctx, "all pods waiting", func() (string, bool, error) {
		n := pods - s.pods.count(phaseNew)
		if made := s.pods.count(phaseNew) + s.pods.count(phaseUnschedulable) + s.pods.count(phasePlaced) + s.pods.count(phaseRunning); made < pods {
			n = made - s.pods.count(phaseNew)
		}
		return fmt.Sprintf("%d of %d pods wait", n, pods), n >= pods, nil
	}); err != nil {
		return w, err
	}
	w.waiting = time.Now()
	s.logProgress("%d pods wait, %.1f s after they were requested", pods, w.waiting.Sub(w.requested).Seconds())
	profiled := s.profileLater(ctx)
	if err := s.waitForFirstPlan(ctx, &w, before); err != nil {
		return w, errors.Join(err, <-profiled)
	}
	s.logProgress("%d NodeClaims %.1f s after the batch was closed; controller at %d MiB, at most %d", len(w.claims), w.firstPlanDuration().Seconds(), w.decided.rss/mib, w.decided.peak/mib)
	err = errors.Join(s.saveProfile(ctx, "heap", "heap-decided"), s.allRun(ctx, pods))
	if err := errors.Join(err, <-profiled); err != nil {
		return w, err
	}
	w.running = time.Now()
	w.api, w.aws = s.traffic.exchangesSince(before)
	w.later = len(exchangesOfKind(w.api, createClaim)) - len(w.claims)
	text, err := os.ReadFile(s.controller.Log)
	if err != nil {
		return w, err
	}
	w.taken = displacedIn(text)
	for _, p := range passesIn(text) {
		w.paid += p.price
	}
	if w.landed, err = s.podPlacements(ctx); err != nil {
		return w, err
	}
	if w.end, err = s.controllerUsage(); err != nil {
		return w, err
	}
	return w, errors.Join(s.saveProfile(ctx, "heap", "heap-running"), s.saveProfile(ctx, "allocs", "allocs"))
}

// profileLater takes a CPU profile of the decision and of the launches after it.
func (s *stage) profileLater(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.saveProfile(ctx, "profile?seconds=25", "cpu") }()
	return done
}

// waitForFirstPlan waits until the claims of the first plan are written.
func (s *stage) waitForFirstPlan(ctx context.Context, w *wave, before mark) error {
	return s.waitUntil(ctx, "the first plan", func() (string, bool, error) {
		planned, err := readPasses(s.controller.Log)
		if err != nil {
			return "", false, err
		}
		n := slices.IndexFunc(planned, func(p pass) bool { return p.claims > 0 })
		if n < 0 {
			return fmt.Sprintf("%d plans without a NodeClaim", len(planned)), false, nil
		}
		w.first = planned[n]
		api, _ := s.traffic.exchangesSince(before)
		w.claims = exchangesOfKind(api, createClaim)
		if n+1 < len(planned) { // what a later plan wants is not part of this one
			w.claims = slices.DeleteFunc(w.claims, func(e exchange) bool { return e.came.After(planned[n+1].found) })
		}
		slices.SortFunc(w.claims, func(a, b exchange) int { return a.done.Compare(b.done) })
		w.decided, err = s.controllerUsage()
		return fmt.Sprintf("%d of %d NodeClaims", len(w.claims), w.first.claims), len(w.claims) >= w.first.claims || n+1 < len(planned), err
	})
}

// reportBurst adds what every wave has.
func (w *wave) reportBurst(r *Result, s *stage, memory int) {
	r.add("pods", float64(w.pods), unitCount)
	r.add("NodePools", float64(s.scaledCount(burstPools)), unitCount)
	r.add("NodeClaims of the first plan", float64(len(w.claims)), unitCount)
	r.add("NodeClaims of later plans", float64(w.later), unitCount)
	r.add("  for pods whose places the scheduler gave to others", float64(w.taken), unitCount)
	r.add("from the end of the batch to the plan", w.first.computed.Sub(w.first.closed).Seconds(), unitSeconds)
	r.addLimit("memory, peak since the start", float64(w.end.peak), unitBytes, float64(memory))
	r.add("  at the last NodeClaim, peak so far", float64(w.decided.peak), unitBytes)
	r.add("  before the first pod", float64(w.idle.rss), unitBytes)
	r.add("  when all pods run", float64(w.end.rss), unitBytes)
	r.add("CPU time of the controller", (w.end.cpu - w.idle.cpu).Seconds(), unitSeconds)
	r.add("until all pods waited (API server, scheduler)", w.waiting.Sub(w.requested).Seconds(), unitSeconds)
	r.add("from the end of the batch until all pods run", w.running.Sub(w.first.closed).Seconds(), unitSeconds)
	r.add("requests to the API server", float64(len(w.api)), unitCount)
	r.add("calls of AWS", float64(len(w.aws)), unitCount)
	r.API, r.AWS = countExchanges(w.api), countExchanges(w.aws)
}

// landed is how many pods the scheduler put where they were planned, and how many it did not.
type landed struct{ planned, elsewhere int }

const landedMetric = "dovetail_pods_landed_total"

// podPlacements queries from the controller where pods landed.
func (s *stage) podPlacements(ctx context.Context) (landed, error) {
	text, err := fetchURL(ctx, http.MethodGet, s.served+"/metrics", nil)
	if err != nil {
		return landed{}, err
	}
	return landedIn(string(text)), nil
}

func landedIn(text string) landed {
	var out landed
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), landedMetric)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		switch {
		case err != nil:
		case strings.Contains(rest, `place="planned"`):
			out.planned += int(n)
		case strings.Contains(rest, `place="elsewhere"`):
			out.elsewhere += int(n)
		}
	}
	return out
}

// percentOf that a part is of all; of nothing it is nothing.
func percentOf(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}

func measureBurst(ctx context.Context, s *stage, r *Result) error {
	w, err := s.createPods(ctx, s.scaledCount(burstPods))
	if len(w.claims) > 0 {
		r.addLimit("decision, from the end of the batch to the last NodeClaim", w.firstPlanDuration().Seconds(), unitSeconds, burstDecision.Seconds())
	}
	if err != nil {
		return err
	}
	w.reportBurst(r, s, burstMemory)
	r.addLimit("NodeClaims of later plans, of all", percentOf(w.later, w.later+len(w.claims)), unitPercent, mostLater)
	r.addLimit("pods that landed elsewhere, of all that were planned for", percentOf(w.landed.elsewhere, w.landed.elsewhere+w.landed.planned), unitPercent, mostElsewhere)
	r.addLimit("price of all plans above that of the first", (w.paid/w.first.price-1)*100, unitPercent, mostDearer)
	return nil
}

// measureBacklog has no limit that the kernel enforces, which would need a control group. The peak that the
// kernel counts is stricter: it includes pages of the binary, which it could take back.
func measureBacklog(ctx context.Context, s *stage, r *Result) error {
	w, err := s.createPods(ctx, s.scaledCount(backlogPods))
	if len(w.claims) > 0 {
		r.add("decision, from the end of the batch to the last NodeClaim", w.firstPlanDuration().Seconds(), unitSeconds)
	}
	if err != nil {
		return err
	}
	w.reportBurst(r, s, backlogMemory)
	r.Notes = append(r.Notes, "the limit is the flag --memory-limit; the kernel enforced none, and its count of the peak is compared")
	return nil
}
