package bars

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	batchIdle = time.Second // the default of --batch-idle-duration

	restBar = 100 * time.Millisecond
	iceBar  = 50 * time.Millisecond
)

// promptNeeds has a clock at its real speed: what is measured are moments of calls. No node joins
// meanwhile.
func promptNeeds(Options) setting { return setting{speed: 1, manifests: plainPools(1)} }

// instanceFamilies are launched one for each sample, so that no sample knows what an earlier one learned.
func instanceFamilies() []string {
	return []string{"m5", "c5", "r5", "m6i", "c6i", "r6i", "m7i", "c7i", "r7i", "m6a", "c6a", "r6a"}
}

// sample is one pod that waited.
type sample struct {
	waited time.Time  // when it was seen to be unschedulable
	claim  exchange   // that was created for it
	fleets []exchange // that were requested
}

// measureSample makes one pod that needs a node of a family, and returns when so many fleets were requested.
func (s *stage) measureSample(ctx context.Context, family string, fleets int) (sample, error) {
	before, is := s.traffic.markNow(), sample{}
	pod := work{name: "bench-" + family, replicas: 1, cpu: "1", memory: "1Gi", team: -1, selector: map[string]string{"karpenter.k8s.aws/instance-family": family}}
	if err := s.deploy(ctx, pod); err != nil {
		return is, err
	}
	err := s.waitUntil(ctx, "a machine of family "+family, func() (string, bool, error) {
		api, aws := s.traffic.exchangesSince(before)
		claims := exchangesOfKind(api, createClaim)
		is.fleets = exchangesOfKind(aws, createFleet)
		if len(claims) > 0 {
			is.claim = claims[0]
		}
		return fmt.Sprintf("%d NodeClaims, %d calls of CreateFleet", len(claims), len(is.fleets)), len(claims) > 0 && len(is.fleets) >= fleets, nil
	})
	if err != nil {
		return is, err
	}
	list, err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pod.name})
	if err != nil {
		return is, err
	}
	if len(list.Items) != 1 {
		return is, fmt.Errorf("%d pods of %s, want 1", len(list.Items), pod.name)
	}
	is.waited = s.pods.waitingSince(list.Items[0].Name)
	if is.waited.IsZero() {
		return is, errors.New("the scheduler never said that the pod is unschedulable")
	}
	return is, nil
}

// measureReaction measures the way from the condition of a pod to its claim.
func measureReaction(ctx context.Context, s *stage, r *Result) error {
	var total, solved, rest []float64
	for _, family := range instanceFamilies()[:s.Samples] {
		is, err := s.measureSample(ctx, family, 1)
		if err != nil {
			return err
		}
		planned, err := readPasses(s.controller.Log)
		if err != nil {
			return err
		}
		took := is.claim.came.Sub(is.waited)
		solve, found := solveBefore(planned, is.claim.came)
		if !found {
			return fmt.Errorf("the log has no %q before a NodeClaim", computedClaims)
		}
		total = append(total, took.Seconds())
		solved = append(solved, solve.Seconds())
		rest = append(rest, (took - batchIdle - solve).Seconds())
	}
	r.add("pods, one after the other", float64(len(total)), unitCount)
	r.add("from Unschedulable to the NodeClaim, median", medianOf(total), unitSeconds)
	r.add("  the same, longest", slices.Max(total), unitSeconds)
	r.add("  of it the batch window", batchIdle.Seconds(), unitSeconds)
	r.add("  of it planning, median", medianOf(solved), unitSeconds)
	r.addLimit("  of it the rest, median", medianOf(rest), unitSeconds, restBar.Seconds())
	return nil
}

// solveBefore is how long the plan took that led to a request.
func solveBefore(planned []pass, claim time.Time) (time.Duration, bool) {
	for _, p := range slices.Backward(planned) {
		if !p.computed.IsZero() && !p.found.After(claim) {
			return p.computed.Sub(p.found), true
		}
	}
	return 0, false
}

// outOfCapacity measures how long the controller takes for its second choice when AWS has nothing of the
// first: there is no spot capacity, which is cheaper and so requested first.
func outOfCapacity(ctx context.Context, s *stage, r *Result) error {
	if _, err := fetchURL(ctx, http.MethodPost, s.world.AWSEndpoint+"/_dovetail/ice", []byte(`{"capacityType": "spot"}`)); err != nil {
		return err
	}
	var gaps, launches []float64
	for _, family := range instanceFamilies()[:s.Samples] {
		is, err := s.measureSample(ctx, family, 2)
		if err != nil {
			return err
		}
		if is.fleets[0].detail != "spot" || is.fleets[1].detail != "on-demand" {
			return fmt.Errorf("family %s: want a fleet of spot and then one on demand, not %s and %s", family, is.fleets[0].detail, is.fleets[1].detail)
		}
		gaps = append(gaps, is.fleets[1].came.Sub(is.fleets[0].done).Seconds())
		launches = append(launches, is.fleets[1].came.Sub(is.claim.done).Seconds())
	}
	r.add("launches", float64(len(gaps)), unitCount)
	r.addLimit("from the response to the next CreateFleet, median", medianOf(gaps), unitSeconds, iceBar.Seconds())
	r.add("  the same, longest", slices.Max(gaps), unitSeconds)
	r.add("from the NodeClaim to that CreateFleet, median", medianOf(launches), unitSeconds)
	return nil
}

// medianOf of a list that is not empty.
func medianOf(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
