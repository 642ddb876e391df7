package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// clusterView is what there is at one moment.
type clusterView struct {
	pods      []corev1.Pod
	claims    []karpv1.NodeClaim
	nodes     []corev1.Node // managed
	instances map[string]bool
	prices    map[string]float64 // USD per hour, by the name of the claim
}

// readClusterView reads the scene.
func (s *demoRun) readClusterView(ctx context.Context) (*clusterView, error) {
	var pods corev1.PodList
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	if err := s.kube.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": workload}); err != nil {
		return nil, err
	}
	if err := s.kube.List(ctx, &claims); err != nil {
		return nil, err
	}
	if err := s.kube.List(ctx, &nodes, client.HasLabels{karpv1.LabelNodePool}); err != nil {
		return nil, err
	}
	now := &clusterView{pods: pods.Items, claims: claims.Items, nodes: nodes.Items, instances: map[string]bool{}, prices: map[string]float64{}}
	for _, i := range s.world.AWS.Instances() {
		if i.State != "terminated" {
			now.instances[i.ID] = true
		}
	}
	for _, c := range now.claims {
		price, known := s.world.AWS.Price(c.Labels[karpv1.LabelCapacityType], c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone])
		if known && now.instances[instanceOf(&c)] {
			now.prices[c.Name] = price
		}
	}
	return now, nil
}

// countRunningPods counts the pods that run and stay.
func (n *clusterView) countRunningPods() int {
	count := 0
	for _, p := range n.pods {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}

// perHour is what all instances with a claim cost.
func (n *clusterView) perHour() float64 {
	sum := 0.0
	for _, price := range n.prices {
		sum += price
	}
	return sum
}

// summaryLine says it in one line.
func (n *clusterView) summaryLine() string {
	counts := map[string]int{}
	order := []string{"requested", "launched", "joined", "ready", "terminating"}
	for i := range n.claims {
		counts[claimStage(&n.claims[i])]++
	}
	var stages []string
	for _, name := range order {
		if counts[name] > 0 {
			stages = append(stages, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	nodes := "none"
	if len(stages) > 0 {
		nodes = strings.Join(stages, ", ")
	}
	return fmt.Sprintf("pods: %d of %d run   nodes: %s   $%.4f/h", n.countRunningPods(), len(n.pods), nodes, n.perHour())
}

func claimStage(c *karpv1.NodeClaim) string {
	is := func(kind string) bool { return condition.True(c.Status.Conditions, kind) }
	switch {
	case c.DeletionTimestamp != nil:
		return "terminating"
	case is(karpv1.ConditionInitialized):
		return "ready"
	case is(karpv1.ConditionRegistered):
		return "joined"
	case is(karpv1.ConditionLaunched):
		return "launched"
	default:
		return "requested"
	}
}

// ready says whether there are claims, and all of them are ready.
func (n *clusterView) ready() bool {
	return len(n.claims) > 0 && !slices.ContainsFunc(n.claims, func(c karpv1.NodeClaim) bool { return claimStage(&c) != "ready" })
}

// podsOn counts the pods on a node.
func (n *clusterView) podsOn(node string) int {
	count := 0
	for _, p := range n.pods {
		if p.Spec.NodeName == node && node != "" {
			count++
		}
	}
	return count
}

// surplusPods are the pods that are too many if so many stay, and nodes keep one in turn.
func (n *clusterView) surplusPods(stay int) []corev1.Pod {
	byNode := map[string][]corev1.Pod{}
	for _, p := range n.pods {
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
	}
	for turn := 0; stay > 0 && turn < len(n.pods); turn++ {
		for _, name := range slices.Sorted(maps.Keys(byNode)) {
			if list := byNode[name]; len(list) > 0 && stay > 0 {
				byNode[name], stay = list[1:], stay-1
			}
		}
	}
	return slices.Concat(slices.Collect(maps.Values(byNode))...)
}

func (n *clusterView) claim(name string) *karpv1.NodeClaim {
	for i := range n.claims {
		if n.claims[i].Name == name {
			return &n.claims[i]
		}
	}
	return nil
}

// instanceOf is the id of the instance of a claim.
func instanceOf(c *karpv1.NodeClaim) string {
	return c.Status.ProviderID[strings.LastIndex(c.Status.ProviderID, "/")+1:]
}
