package bars

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

const (
	// benchLabel is on all pods that are counted, and on all nodes that may run them.
	benchLabel = "sandbox.dovetail.sh/bench"
	teamLabel  = "sandbox.dovetail.sh/team"

	// podsPerNode is the setting maxPods of every kubelet here, so that the number of nodes is known
	// although every size of machine may be launched: some hold fewer, where that is cheaper.
	podsPerNode = 13
)

// categories that every pool may launch: some 700 types of the emulated account.
const categories = `["c", "m", "r", "x", "z", "d"]`

var nodePool = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

func listAll() metav1.ListOptions { return metav1.ListOptions{} }

// nodeClass is like those of the seeds, with few pods for each node.
func nodeClass() string {
	return fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-%[1]s
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: %[1]s}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: %[1]s}}]
  kubelet: {maxPods: %[2]d}
`, world.Cluster, podsPerNode)
}

// pool is what differs between the pools of a scenario.
type pool struct {
	number  int
	tainted bool     // only pods of the team with its number
	spot    bool     // spot as well as on demand
	arch    string   // empty: both
	zones   []string // empty: all
	weight  int
	types   []string // empty: all of the categories
}

func (p pool) name() string { return fmt.Sprintf("bench-%03d", p.number) }

func (p pool) poolManifest() string {
	requirements := []string{requirementYAML("karpenter.k8s.aws/instance-category", categories)}
	if len(p.types) > 0 {
		requirements = []string{requirementYAML("node.kubernetes.io/instance-type", yamlList(p.types))}
	}
	if p.spot {
		requirements = append(requirements, requirementYAML("karpenter.sh/capacity-type", `["spot", "on-demand"]`))
	} else {
		requirements = append(requirements, requirementYAML("karpenter.sh/capacity-type", `["on-demand"]`))
	}
	if p.arch != "" {
		requirements = append(requirements, requirementYAML("kubernetes.io/arch", fmt.Sprintf("[%q]", p.arch)))
	}
	if len(p.zones) > 0 {
		requirements = append(requirements, requirementYAML("topology.kubernetes.io/zone", yamlList(p.zones)))
	}
	taints, weight := "", ""
	if p.tainted {
		taints = fmt.Sprintf("      taints: [{key: %s, value: %s, effect: NoSchedule}]\n", teamLabel, namespaceName(p.number))
	}
	if p.weight > 0 {
		weight = fmt.Sprintf("  weight: %d\n", p.weight)
	}
	return fmt.Sprintf(`---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
%s  template:
    metadata:
      labels: {%s: "true", %s: %s}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: Never
%s      requirements:
%s  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`, p.name(), weight, benchLabel, teamLabel, namespaceName(p.number), taints, strings.Join(requirements, ""))
}

func requirementYAML(key, values string) string {
	return fmt.Sprintf("      - {key: %s, operator: In, values: %s}\n", key, values)
}

// yamlList is a list in YAML.
func yamlList(list []string) string { return fmt.Sprintf(`["%s"]`, strings.Join(list, `", "`)) }

func namespaceName(n int) string { return fmt.Sprintf("t%03d", n) }

// mixedPools are as different as those of a large company: half are tainted, a third have spot, a fifth
// is arm64, a fifth is in two zones.
func mixedPools(n int) string {
	var b strings.Builder
	b.WriteString(nodeClass())
	for i := range n {
		p := pool{number: i, tainted: i%2 == 1, spot: i%10 < 3, weight: i % 3 * 10}
		switch i % 5 {
		case 0:
			p.arch = "arm64"
		case 1:
			p.zones = []string{world.Region + "a", world.Region + "b"}
		}
		b.WriteString(p.poolManifest())
	}
	return b.String()
}

// plainPools can all run everything.
func plainPools(n int) string {
	var b strings.Builder
	b.WriteString(nodeClass())
	for i := range n {
		b.WriteString(pool{number: i, spot: true, weight: i}.poolManifest())
	}
	return b.String()
}

// work is a number of equal pods.
type work struct {
	name     string
	replicas int
	cpu      string
	memory   string
	team     int               // whose pool they must run in; negative means any
	selector map[string]string // more that their node must have
}

// mixedWork is a Deployment for each pool: the odd ones may run in their pool only.
func mixedWork(pods, pools int) []work {
	sizes := []struct{ cpu, memory string }{{"250m", "512Mi"}, {"500m", "1Gi"}, {"1", "2Gi"}, {"1", "8Gi"}, {"2", "4Gi"}, {"100m", "256Mi"}, {"750m", "3Gi"}}
	var list []work
	for i := range pools {
		size, owner := sizes[i%len(sizes)], -1
		if i%2 == 1 {
			owner = i
		}
		replicas := pods*(i+1)/pools - pods*i/pools
		list = append(list, work{name: fmt.Sprintf("bench-%03d", i), replicas: replicas, cpu: size.cpu, memory: size.memory, team: owner})
	}
	return list
}

// deploy requests pods.
func (s *stage) deploy(ctx context.Context, list ...work) error {
	for _, w := range list {
		if _, err := s.kube.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, w.newDeployment(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (w work) newDeployment() *appsv1.Deployment {
	labels := map[string]string{benchLabel: "true", "app": w.name}
	selector := map[string]string{benchLabel: "true"}
	maps.Copy(selector, w.selector)
	var tolerations []corev1.Toleration
	if w.team >= 0 {
		selector[teamLabel] = namespaceName(w.team)
		tolerations = append(tolerations, corev1.Toleration{Key: teamLabel, Operator: corev1.TolerationOpEqual, Value: namespaceName(w.team), Effect: corev1.TaintEffectNoSchedule})
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(w.replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)),
					NodeSelector:                  selector,
					Tolerations:                   tolerations,
					Containers: []corev1.Container{{
						Name: "pause", Image: "registry.k8s.io/pause:3.10",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse(w.cpu), corev1.ResourceMemory: resource.MustParse(w.memory),
						}},
					}},
				},
			},
		},
	}
}

// withFree turns the subnets of the emulated account into a request that gives each so many addresses.
func withFree(subnets []byte, n int) ([]byte, error) {
	var byID map[string]json.RawMessage
	if err := json.Unmarshal(subnets, &byID); err != nil {
		return nil, fmt.Errorf("subnets: %w", err)
	}
	type subnet struct {
		ID   string `json:"id"`
		Free int    `json:"free"`
	}
	var list []subnet
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list = append(list, subnet{ID: id, Free: n})
	}
	return json.Marshal(list)
}
