package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

//go:embed demo.yaml
var manifests []byte

// What the manifests name.
const (
	namespace = "default"
	workload  = "inflate"
	pool      = "general"
	class     = "default"
)

// How long the acts may take. They are meant to take a fraction of it, on a busy machine more.
const (
	readyLimit = time.Minute
	upLimit    = 2 * time.Minute
	notice     = 2 * time.Minute // of EC2, before it takes a spot instance
	downLimit  = 3 * time.Minute

	shrinkLimit = 3 * time.Minute
	restTime    = 15 * time.Second // longer than a pass of the loop that removes nodes
)

// start brings the world and the controller up, and has the invariants checked.
func (s *demoRun) start(ctx context.Context) (string, error) {
	var err error
	s.world, err = world.Start(ctx, world.Options{Dir: s.dir, ControlPlane: s.ControlPlane, Nodes: 2, Boot: bootTime, Progress: func(part string, took time.Duration) {
		s.printLine("      %-26s%s", part, formatSeconds(took))
	}})
	if err != nil {
		return "", err
	}
	s.onStop(s.world.Stop)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return "", err
		}
	}
	kube, err := client.NewWithWatch(s.world.ControlPlane.Config, client.Options{Scheme: scheme})
	if err != nil {
		return "", err
	}
	s.kube = kube
	s.checker = invariant.New(invariant.Options{Cluster: world.Cluster})
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		s.checker.Follow(following, invariant.Sources{Kube: kube, AWS: s.world.AWS, Proxy: s.world.Proxy})
	})
	s.onStop(func() error { stop(); running.Wait(); return nil })
	port, err := harness.LastingPort(ctx)
	if err != nil {
		return "", err
	}
	s.controller, err = s.world.RunController(ctx, world.ControllerOptions{
		Binary: s.Controller, Proxied: true, Flags: []string{fmt.Sprintf("--metrics-port=%d", port), "--serve-console"}, Installation: world.Installation{Rules: world.Stored()},
	})
	if err != nil {
		return "", err
	}
	s.onStop(s.controller.Stop)
	s.access.address = fmt.Sprintf("http://127.0.0.1:%d", port)
	if s.access.Reader, err = s.world.GrantReader(ctx); err != nil {
		return "", err
	}
	s.printLine("      instances boot in %s here", bootTime)
	return "2 unmanaged nodes, a controller and an empty account", nil
}

// apply sends the manifests and waits until pool and class are ready.
func (s *demoRun) apply(ctx context.Context) (string, error) {
	list, err := kubectl.Read("demo.yaml", manifests)
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if _, err := s.world.Kube.Apply(ctx, m.Object); err != nil {
			return "", fmt.Errorf("%s %s was refused: %w", m.Object.GetKind(), m.Object.GetName(), err)
		}
		s.printLine("      %s %s applied", m.Object.GetKind(), m.Object.GetName())
	}
	class, pool := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: class}}, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	err = s.waitUntil(ctx, readyLimit, "the NodePool and its EC2NodeClass are Ready", func(ctx context.Context) (bool, string, error) {
		if err := errors.Join(s.kube.Get(ctx, client.ObjectKeyFromObject(class), class), s.kube.Get(ctx, client.ObjectKeyFromObject(pool), pool)); err != nil {
			return false, "", err
		}
		ok := condition.True(class.Status.Conditions, karpv1.ConditionReady) && condition.True(pool.Status.Conditions, karpv1.ConditionReady)
		return ok, sayConditions("EC2NodeClass", class.Status.Conditions) + sayConditions("NodePool", pool.Status.Conditions), nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("both are Ready; %d subnets, %d security groups and %d images were found", len(class.Status.Subnets), len(class.Status.SecurityGroups), len(class.Status.AMIs)), nil
}

// scaleUp waits until all pods run, and shows what was launched for them.
func (s *demoRun) scaleUp(ctx context.Context) (string, error) {
	if err := s.scale(ctx, s.Replicas); err != nil {
		return "", err
	}
	now, err := s.waitForView(ctx, upLimit, fmt.Sprintf("%d pods run on nodes that are ready", s.Replicas), func(n *clusterView) bool {
		return n.countRunningPods() == s.Replicas && len(n.pods) == s.Replicas && n.ready()
	})
	if err != nil {
		return "", err
	}
	s.live.finishLine()
	s.printClaims(now)
	if len(now.prices) != len(now.claims) {
		return "", fmt.Errorf("%d of %d NodeClaims have no instance with a price", len(now.claims)-len(now.prices), len(now.claims))
	}
	return s.compare(now)
}

// compare holds what the nodes cost against what was planned, and against what nothing can be below.
func (s *demoRun) compare(now *clusterView) (string, error) {
	made := s.loggedPlans()
	const rounding = 0.999
	switch {
	case made.count == 0:
		return "", errors.New("the log has no line \"computed new nodeclaim(s) to fit pod(s)\"")
	case made.bound <= 0:
		return "", errors.New("the plan has no lower bound")
	case made.price < made.bound*rounding:
		return "", fmt.Errorf("the plan costs $%.4f/h, less than its lower bound of $%.4f/h, which must be wrong", made.price, made.bound)
	}
	above := fmt.Sprintf("%.1f %% above the lower bound", 100*(made.price/made.bound-1))
	s.printLine("      planned at $%.4f/h; no plan for these pods costs less than $%.4f/h", made.price, made.bound)
	if paid := now.perHour(); paid > made.price/rounding {
		s.printLine("      paid $%.4f/h: of the spot pools that it was offered, EC2 chooses those with the most free capacity, not the cheapest", paid)
	}
	return fmt.Sprintf("%d pods on %d nodes, planned at $%.4f/h (%s), paid $%.4f/h", s.Replicas, len(now.claims), made.price, above, now.perHour()), nil
}

// interruptSpotNode has the busiest spot node taken back, and waits until its pods run elsewhere.
func (s *demoRun) interruptSpotNode(ctx context.Context) (string, error) {
	before, err := s.readClusterView(ctx)
	if err != nil {
		return "", err
	}
	victim := slices.MaxFunc(before.claims, func(a, b karpv1.NodeClaim) int {
		return cmp.Compare(before.podsOn(a.Status.NodeName), before.podsOn(b.Status.NodeName))
	})
	s.printLine("      %s, %s in %s, with %d pods", victim.Status.NodeName, victim.Labels[corev1.LabelInstanceTypeStable], victim.Labels[corev1.LabelTopologyZone], before.podsOn(victim.Status.NodeName))
	began := time.Now()
	if err := s.callControlAPI(ctx, "interrupt", fmt.Sprintf(`{"instance":%q}`, instanceOf(&victim))); err != nil {
		return "", err
	}
	var reaction, replaced, moved time.Duration
	first := func(d *time.Duration, holds bool) {
		if *d == 0 && holds {
			*d = time.Since(began)
		}
	}
	now, err := s.waitForView(ctx, notice, "all pods run again and the interrupted node is deleted", func(n *clusterView) bool {
		old := n.claim(victim.Name)
		first(&reaction, old == nil || old.DeletionTimestamp != nil)
		first(&replaced, reaction > 0 && slices.ContainsFunc(n.claims, func(c karpv1.NodeClaim) bool { return before.claim(c.Name) == nil }))
		first(&moved, reaction > 0 && n.countRunningPods() == s.Replicas && n.podsOn(victim.Status.NodeName) == 0)
		return moved > 0 && old == nil && n.ready() && n.countRunningPods() == s.Replicas
	})
	if err != nil {
		return "", err
	}
	s.live.finishLine()
	s.printClaims(now)
	if reaction > 5*time.Second {
		return "", fmt.Errorf("the controller reacted after %s; at most 5 s are allowed (S-027)", formatSeconds(reaction))
	}
	result := fmt.Sprintf("reaction after %s, all pods run again after %s of 120 s", formatSeconds(reaction), formatSeconds(moved))
	if replaced > 0 {
		result += fmt.Sprintf(", replacement ordered after %s", formatSeconds(replaced))
	}
	return result, nil
}

// consolidateNodes leaves a third of the pods behind, spread over all nodes, and waits until they have moved
// together.
func (s *demoRun) consolidateNodes(ctx context.Context) (string, error) {
	const times = 3
	if err := s.scale(ctx, times*s.Replicas); err != nil {
		return "", err
	}
	full, err := s.waitForView(ctx, upLimit, fmt.Sprintf("%d pods run", times*s.Replicas), func(n *clusterView) bool {
		return n.countRunningPods() == times*s.Replicas && n.ready()
	})
	if err != nil {
		return "", err
	}
	s.live.finishLine()
	if err := s.spreadRemainingPods(ctx, full); err != nil {
		return "", err
	}
	if err := s.scale(ctx, s.Replicas); err != nil {
		return "", err
	}
	before, err := s.waitForView(ctx, readyLimit, fmt.Sprintf("%d pods are left", s.Replicas), func(n *clusterView) bool { return len(n.pods) == s.Replicas })
	if err != nil {
		return "", err
	}
	s.live.finishLine()
	s.printClaims(before)
	if err := s.patchConsolidationPolicy(ctx, karpv1.ConsolidationWhenEmptyOrUnderutilized); err != nil {
		return "", err
	}
	s.printLine("      NodePool %s: consolidationPolicy %s", pool, karpv1.ConsolidationWhenEmptyOrUnderutilized)
	after, err := s.waitForView(ctx, shrinkLimit, "the cluster shrinks and becomes stable", s.atRest(func(n *clusterView) bool {
		return n.countRunningPods() == s.Replicas && n.ready() && n.perHour() < before.perHour()
	}))
	if err != nil {
		return "", err
	}
	s.live.finishLine()
	s.printClaims(after)
	for i := range before.claims {
		if c := &before.claims[i]; after.claim(c.Name) == nil {
			s.removed = c.Status.NodeName
		}
	}
	done := s.loggedMoves()
	least, bound := "", ""
	if done.bound > 0 { // otherwise none is known
		least, bound = fmt.Sprintf("; no cluster for these pods costs less than $%.4f/h", done.bound), fmt.Sprintf(" (lower bound $%.4f/h)", done.bound)
	}
	s.printLine("      $%.4f/h before, $%.4f/h after%s", before.perHour(), after.perHour(), least)
	return fmt.Sprintf("%d nodes became %d, $%.4f/h became $%.4f/h%s, %d pods moved",
		len(before.claims), len(after.claims), before.perHour(), after.perHour(), bound, done.pods), nil
}

// spreadRemainingPods has the pods that are to stay spread over all nodes, as those do that end at random: a ReplicaSet
// would empty the largest nodes.
func (s *demoRun) spreadRemainingPods(ctx context.Context, n *clusterView) error {
	for _, p := range n.surplusPods(s.Replicas) {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"-1"}}}`, corev1.PodDeletionCost))
		if err := s.kube.Patch(ctx, &p, patch); err != nil {
			return err
		}
	}
	return nil
}

// atRest holds once a scene has held for some time without a node coming or going.
func (s *demoRun) atRest(holds func(*clusterView) bool) func(*clusterView) bool {
	var names string
	since := time.Now()
	return func(n *clusterView) bool {
		var now strings.Builder
		for i := range n.claims {
			fmt.Fprintln(&now, n.claims[i].Name, claimStage(&n.claims[i]))
		}
		if now.String() != names || !holds(n) {
			names, since = now.String(), time.Now()
		}
		return time.Since(since) > restTime
	}
}

// patchConsolidationPolicy is kubectl patch nodepool.
func (s *demoRun) patchConsolidationPolicy(ctx context.Context, policy karpv1.ConsolidationPolicy) error {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	return s.kube.Patch(ctx, p, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"disruption":{"consolidationPolicy":%q}}}`, policy)))
}

// scaleDown waits until nothing is left.
func (s *demoRun) scaleDown(ctx context.Context) (string, error) {
	if err := s.scale(ctx, 0); err != nil {
		return "", err
	}
	_, err := s.waitForView(ctx, downLimit, "no NodeClaim, node or instance is left", func(n *clusterView) bool {
		return len(n.pods)+len(n.claims)+len(n.nodes)+len(n.instances) == 0
	})
	if err != nil {
		return "", err
	}
	return "no node, no instance, $0.0000/h", nil
}

// scale is kubectl scale.
func (s *demoRun) scale(ctx context.Context, replicas int) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: workload, Namespace: namespace}}
	return s.kube.Patch(ctx, d, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// printClaims shows what kubectl get nodeclaims shows, with prices.
func (s *demoRun) printClaims(n *clusterView) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NODECLAIM\tTYPE\tZONE\tCAPACITY\tPODS\tPER HOUR")
	for _, c := range n.claims {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t$%.4f\n", c.Name, c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone],
			c.Labels[karpv1.LabelCapacityType], n.podsOn(c.Status.NodeName), n.prices[c.Name])
	}
	_ = table.Flush() // a builder takes everything
	for line := range strings.Lines(text.String()) {
		s.printLine("      %s", strings.TrimRight(line, "\n"))
	}
}

// callControlAPI steers the emulated account.
func (s *demoRun) callControlAPI(ctx context.Context, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.world.AWSEndpoint+"/_dovetail/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // the status says enough
		return fmt.Errorf("%s: %s: %s", path, response.Status, text)
	}
	return nil
}
