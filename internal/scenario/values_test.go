package scenario_test

import (
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// A value outside its short list or its range would be a constraint that silently does not hold.
func TestMistypedValuesAreRefused(t *testing.T) {
	t.Parallel()
	const (
		pod    = `"nodeSelector": {"example.com/gpu": "t4"}, `
		spread = `"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}], `
		port   = `"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}], `
		gpu    = `"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu"`
		taint  = `"capacityType": "on-demand", "labels": {"rack": "1"}, `
	)
	good := strings.Replace(tiny(t), pod+gpu, pod+spread+strings.Replace(gpu, `"resources"`, port+`"resources"`, 1), 1)
	good = strings.Replace(good, taint, taint+`"taints": [{"key": "k", "effect": "NoSchedule"}], `, 1)
	if _, err := scenario.Load([]byte(good), awsv1.Vocabulary()); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ replace, by, want string }{
		"capacity type of an offering": {
			`"capacityType": "spot"`, `"capacityType": "spott"`,
			`$.instanceTypes[0].offerings[2].capacityType: "spott" is not known; want on-demand, spot or reserved; did you mean "spot"?`,
		},
		"capacity type of a node": {
			taint, strings.Replace(taint, "on-demand", "OnDemand", 1),
			`$.nodes[0].capacityType: "OnDemand" is not known; want on-demand, spot or reserved; did you mean "on-demand"?`,
		},
		"effect of a node's taint": {
			`{"key": "k", "effect": "NoSchedule"}`, `{"key": "k", "effect": "noschedule"}`,
			`$.nodes[0].taints[0].effect: "noschedule" is not known; want NoSchedule, PreferNoSchedule or NoExecute; did you mean "NoSchedule"?`,
		},
		"effect of a pool's taint": {
			`"value": "web", "effect": "NoSchedule"`, `"value": "web", "effect": "NoSchedul"`,
			`$.nodePools[0].spec.template.spec.taints[0].effect: "NoSchedul" is not valid; want NoSchedule, PreferNoSchedule or NoExecute; did you mean "NoSchedule"?`,
		},
		"operator of a toleration": {
			`{"tolerations": [{"operator": "Exists"}], ` + pod, `{"tolerations": [{"operator": "Exist"}], ` + pod,
			`$.pods[1].template.spec.tolerations[0].operator: "Exist" is not known; want Exists, Equal, Lt or Gt; did you mean "Exists"?`,
		},
		"effect of a toleration": {
			`{"tolerations": [{"operator": "Exists"}], ` + pod, `{"tolerations": [{"operator": "Exists", "effect": "NoExec"}], ` + pod,
			`$.pods[1].template.spec.tolerations[0].effect: "NoExec" is not known; want NoSchedule, PreferNoSchedule or NoExecute; did you mean "NoExecute"?`,
		},
		"whenUnsatisfiable": {
			`"DoNotSchedule"`, `"DoNotSchedul"`,
			`$.pods[1].template.spec.topologySpreadConstraints[0].whenUnsatisfiable: "DoNotSchedul" is not known; want DoNotSchedule or ScheduleAnyway; did you mean "DoNotSchedule"?`,
		},
		"maxSkew":        {`"maxSkew": 1`, `"maxSkew": 0`, `$.pods[1].template.spec.topologySpreadConstraints[0].maxSkew: 0 is too low; want 1 or more`},
		"minDomains":     {`"maxSkew": 1`, `"maxSkew": 1, "minDomains": 0`, `$.pods[1].template.spec.topologySpreadConstraints[0].minDomains: 0 is too low; want 1 or more`},
		"policy":         {`"maxSkew": 1`, `"maxSkew": 1, "nodeTaintsPolicy": "honour"`, `$.pods[1].template.spec.topologySpreadConstraints[0].nodeTaintsPolicy: "honour" is not known; want Honor or Ignore; did you mean "Honor"?`},
		"host port":      {`"hostPort": 80`, `"hostPort": 80000`, `$.pods[1].template.spec.containers[0].ports[0].hostPort: 80000 is out of range; want 1 to 65535`},
		"container port": {`"containerPort": 80`, `"containerPort": -1`, `$.pods[1].template.spec.containers[0].ports[0].containerPort: -1 is out of range; want 1 to 65535`},
		"protocol":       {`"TCP"`, `"tcp"`, `$.pods[1].template.spec.containers[0].ports[0].protocol: "tcp" is not known; want TCP, UDP or SCTP; did you mean "TCP"?`},
		"weight":         {`"weight": 10`, `"weight": 101`, `$.nodePools[0].spec.weight: 101 is out of range; want 1 to 100`},
		"replicas":       {`"weight": 10`, `"replicas": -1`, `$.nodePools[0].spec.replicas: -1 is too low; want 0 or more`},
		"version":        {`"karpenter.sh/v1"`, `"karpenter.sh/v11"`, `$.nodePools[0].apiVersion: "karpenter.sh/v11" is not known; want karpenter.sh/v1 or karpenter.sh/v1beta1; did you mean "karpenter.sh/v1"?`},
		"kind":           {`"kind": "NodePool"`, `"kind": "Nodepool"`, `$.nodePools[0].kind: "Nodepool" is not known; want NodePool; did you mean "NodePool"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, tc.replace) {
				t.Fatalf("the file does not contain %s", tc.replace)
			}
			_, err := scenario.Load([]byte(strings.ReplaceAll(good, tc.replace, tc.by)), awsv1.Vocabulary())
			if err == nil || err.Error() != tc.want {
				t.Errorf("Load() says\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

// Consolidation leaves alone what a controller would not touch.
func TestCandidatesLeaveOutWhatMayNotBeDisrupted(t *testing.T) {
	t.Parallel()
	const annotation = `"annotations": {"karpenter.sh/do-not-disrupt": `
	for name, tc := range map[string]struct {
		replace, by string
		want        int
	}{
		"nothing said":           {`"weight": 10`, `"weight": 10`, 1},
		"a static pool":          {`"weight": 10`, `"replicas": 1`, 0},
		"a pool that is going":   {`"metadata": {"name": "default"}`, `"metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}`, 0},
		"consolidateAfter Never": {`"weight": 10`, `"disruption": {"consolidateAfter": "Never"}`, 0},
		"a pod":                  {`"labels": {"app": "web"}`, annotation + `"true"}`, 0},
		"a pod, still":           {`"labels": {"app": "web"}`, annotation + `"2h"}`, 0},
		"a pod, no longer":       {`"labels": {"app": "web"}`, annotation + `"30m"}`, 1},
		"the node":               {`"labels": {"rack": "1"}`, annotation + `"true"}`, 0},
		"the node, by its pool":  {`"labels": {"team": "web"}`, annotation + `"true"}`, 0},
		"a budget, not applied":  {`"weight": 10`, `"disruption": {"budgets": [{"nodes": "0"}]}`, 1},
		"a node of no pool":      {`"nodePool": "default", `, ``, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tiny(t)
			if !strings.Contains(text, tc.replace) {
				t.Fatalf("the file does not contain %s", tc.replace)
			}
			if got := compiled(t, strings.ReplaceAll(text, tc.replace, tc.by)).Candidates(); len(got) != tc.want {
				t.Errorf("candidates %v, want %d", got, tc.want)
			}
		})
	}
}
