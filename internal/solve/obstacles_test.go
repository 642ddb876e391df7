package solve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// obstaclesOf explains the first pod of a script, as lines.
func obstaclesOf(t *testing.T, text string) string {
	t.Helper()
	p := problem(t, text)
	_, all := solve.Explain(p, func(*solve.Plan) []cluster.PodKey { return []cluster.PodKey{p.Pods[0].Key} }, stopIf(false))
	o, found := all[p.Pods[0].Key]
	if !found {
		t.Fatal("the pod is not explained")
	}
	var b strings.Builder
	for _, pool := range o.Pools {
		fmt.Fprintf(&b, "%s:", pool.Pool)
		for _, why := range pool.Why {
			fmt.Fprintf(&b, " %s (%s);", why.Code, why.Text())
		}
		b.WriteString("\n")
	}
	for _, n := range o.Nodes {
		fmt.Fprintf(&b, "%d like %s: %s\n", n.Nodes, n.Node, n.Why.Text())
	}
	if len(o.Fits) > 0 {
		fmt.Fprintf(&b, "fits %s\n", strings.Join(o.Fits, ", "))
	}
	return b.String()
}

// EX-02, EX-03: every reason of every pool is there, and all nodes are counted.
func TestEX_02_AllObstacles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, want string }{
		"what the nearest type lacks once its DaemonSets run": {
			script: "type name=small cpu=2 memory=4 price=1\ntype name=large cpu=4 memory=8 price=2\npool name=default\ndaemon name=agent cpu=500m\npod name=web cpu=3800m",
			want:   "default: NoTypeFits (no instance type has room for cpu:3800m; the largest has 3500m, as daemonset/default/agent requests the rest); NearestType (requests cpu:300m more than large leaves after DaemonSets);\n",
		},
		"a pool is excluded for several reasons at once": {
			script: "type name=m cpu=4 price=1\npool name=a taints=team=x:NoSchedule labels=rack:r1 requires=\"zone in a\"\npod name=web cpu=8 selector=rack:r2",
			want:   "a: TaintNotTolerated (taint team=x:NoSchedule is not tolerated); RequirementConflict (requires rack In [r2], but it has In [r1]); NoTypeFits (no instance type has room for cpu:8; the largest has 4); NearestType (requests cpu:4 more than m leaves);\n",
		},
		"a pool that can launch a node has no reason": {
			script: "type name=m cpu=4 price=1\npool name=a\npool name=b closed\npod name=web cpu=2",
			want:   "b: PoolClosed (nothing is launched from it: it is not ready; kubectl describe nodepool shows why);\na:\n",
		},
		"nodes are counted by reason": {
			script: "type name=m cpu=4 price=1\npool name=a\nnode name=n1 cpu=1\nnode name=n2 cpu=2\nnode name=n3 cpu=8 taints=team=x:NoSchedule\nnode name=n4 cpu=4\npod name=web cpu=3",
			want:   "a:\n3 like n2: node/n2: cpu:3 requested, 2 left\n1 like n3: node/n3: taint team=x:NoSchedule is not tolerated\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, obstaclesOf(t, tc.script)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// EX-02: an explanation changes no plan, and rules out every place of a pod that has none.
func TestEX_02_ObstaclesAgreeWithPlans(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		p := random.Problem(rand.New(rand.NewPCG(seed, 1)), random.Options{})
		keys := make([]cluster.PodKey, 0, len(p.Pods))
		for i := range p.Pods {
			keys = append(keys, p.Pods[i].Key)
		}
		plan, all := solve.Explain(p, func(*solve.Plan) []cluster.PodKey { return keys }, stopIf(false))
		if diff := cmp.Diff(solve.Solve(p, stopIf(false)), plan); diff != "" {
			t.Fatalf("seed %d: another plan (-without +with explanation):\n%s", seed, diff)
		}
		for _, u := range plan.Unplaced {
			o := all[u.Pod]
			if u.Deferred || slices.ContainsFunc(u.Why, func(r reason.Reason) bool { return r.Code == reason.MinValuesUnmet || r.Code == reason.NoOffering }) {
				continue // a planned node was given up, or waits: the pool has nothing against the pod
			}
			if len(o.Fits) > 0 {
				t.Errorf("seed %d: pod %s fits node %s after all: %s", seed, u.Pod, o.Fits[0], reason.Join(u.Why, 0))
			}
			for _, pool := range o.Pools {
				if len(pool.Why) == 0 {
					t.Errorf("seed %d: pod %s fits pool %s after all: %s", seed, u.Pod, pool.Pool, reason.Join(u.Why, 0))
				}
			}
		}
	}
}
