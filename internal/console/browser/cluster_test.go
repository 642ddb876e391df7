package browser

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// fleetOf is a cluster of three NodePools whose nodes differ in type, zone and utilization.
func fleetOf(nodes int) *snapshot.File {
	f := snapshottest.New(snapshottest.Options{Huge: 1, Pending: 2})
	random := rand.New(rand.NewPCG(7, uint64(nodes)))
	pools := []string{snapshottest.PoolName, "batch", "data"}
	for _, name := range pools[1:] {
		f.Objects.NodePools = append(f.Objects.NodePools, *snapshottest.Pool(name))
		f.Catalogues[0].NodePools = append(f.Catalogues[0].NodePools, name)
	}
	types := map[string][]string{pools[0]: {"m5.xlarge", "m5.2xlarge", "m7g.xlarge"}, "batch": {"c5.xlarge", "m5.large"}, "data": {"r5.xlarge"}}
	size := map[string]int{"m5.large": 2, "m5.xlarge": 4, "m5.2xlarge": 8, "c5.xlarge": 4, "r5.xlarge": 4, "m7g.xlarge": 4}
	for i := range nodes {
		pool := pools[[]int{0, 0, 0, 1, 1, 2}[random.IntN(6)]]
		kind := types[pool][random.IntN(len(types[pool]))]
		market := karpv1.CapacityTypeOnDemand
		if pool == "batch" {
			market = karpv1.CapacityTypeSpot
		}
		name := fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/250, i%250+4)
		claim, node := snapshottest.Node(name, kind, "us-east-1"+string("abc"[random.IntN(3)]), market)
		claim.Labels[karpv1.LabelNodePool], node.Labels[karpv1.LabelNodePool] = pool, pool
		f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *node)
		free := size[kind]*1000 - 300
		for j := range 12 {
			cpu := 150 + random.IntN(900)
			if cpu > free || random.IntN(9) == 0 {
				break
			}
			free -= cpu
			f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod(fmt.Sprintf("%s-%d-%d", []string{"web", "api", "worker"}[random.IntN(3)], i, j), name, fmt.Sprintf("%dm", cpu), fmt.Sprintf("%dMi", 200+random.IntN(700))))
		}
		if nodes > 20 && i%29 == 5 {
			f.Objects.Nodes[i].Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	return f
}

// past is a day of decisions and of costs.
func past() inspect.History {
	now := snapshottest.Now()
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	h := inspect.History{Events: []inspect.Event{
		{At: at(22 * time.Hour), Kind: "plan", Text: "3 nodes are launched in NodePool default for 14 pods", Source: "ledger"},
		{
			At: at(6 * time.Hour), Kind: "command", ID: "8f2c11", Text: "2 nodes are removed, their 5 pods fit on others", Source: "ledger", Saves: 0.384,
			Objects: []string{"node/ip-10-0-0-9.ec2.internal", "node/ip-10-0-0-31.ec2.internal", "pod/default/web-5-0"},
			Detail:  []byte(`{"reason":"Underutilized","decision":"delete","remove":[{"node":"ip-10-0-0-9.ec2.internal","pods":["default/web-5-0","default/api-5-1"]}],"saves":0.384,"why":{"code":"SavesEnough","text":"saves $0.38/h, more than the moves cost"}}`),
		},
		{At: at(5*time.Hour + 56*time.Minute), Kind: "outcome", ID: "8f2c11", Text: "2 nodes were removed, 5 pods were evicted", Source: "ledger", Objects: []string{"node/ip-10-0-0-9.ec2.internal"}},
		{At: at(3 * time.Hour), Kind: "blocked", Text: "node ip-10-0-0-12.ec2.internal stays: PodDisruptionBudget default/db allows no eviction", Source: "ledger", Objects: []string{"node/ip-10-0-0-12.ec2.internal"}},
		{At: at(2 * time.Hour), Kind: "command", ID: "77aa02", Text: "m5.2xlarge is replaced by m7g.xlarge in us-east-1b", Source: "ledger", Saves: 0.221, Objects: []string{"node/ip-10-0-0-40.ec2.internal"}},
		{At: at(90 * time.Minute), Kind: "draining", Text: "node ip-10-0-0-40.ec2.internal waits for pod default/worker-31-2, whose grace period is 10 min", Source: "ledger", Objects: []string{"node/ip-10-0-0-40.ec2.internal"}},
		{At: at(40 * time.Minute), Kind: "Unconsolidatable", Text: "can't replace with a cheaper node", Source: "event", Objects: []string{"node/ip-10-0-0-5.ec2.internal"}},
		{At: at(4 * time.Minute), Kind: "plan", Text: "no node can be planned for pod default/huge-0000: 500 CPU is more than any instance type has", Source: "ledger", Objects: []string{"pod/default/huge-0000"}},
	}}
	cost, bound, saved := 14.2, 11.1, 0.0
	for i := range 97 {
		switch i {
		case 20, 33:
			cost, bound = cost+1.6, bound+1.4
		case 40, 61:
			bound -= 1.2
		case 45, 66, 72, 88:
			cost, saved = cost-0.9, saved+0.9
		}
		c := inspect.Cost{At: at(24*time.Hour - time.Duration(i)*15*time.Minute), Hourly: cost, Bound: bound, Saved: saved, Nodes: 60, Pods: 210}
		if i == 45 || i == 66 || i == 88 {
			c.Evictions = 5
		}
		h.Costs = append(h.Costs, c)
	}
	return h
}

// spent is a week of savings, the last day of which is not over, and its bound not known.
func spent() inspect.Savings {
	var out inspect.Savings
	for i := range 7 {
		cost, saved, hours := 340-7.5*float64(i), 11*float64(i), 24.0
		if i == 6 {
			cost, saved, hours = cost/2, saved/2, 11.5
		}
		row := func(name string, share float64) inspect.SavingsRow {
			return inspect.SavingsRow{Name: name, Spent: cost * share, Unconsolidated: (cost + saved) * share, Evictions: int(float64(9*i) * share)}
		}
		d := inspect.DaySavings{
			Day: snapshottest.Now().AddDate(0, 0, i-6).Format(time.DateOnly), Hours: hours, Total: row("", 1),
			NodePools: []inspect.SavingsRow{row("batch", 0.2), row("data", 0.15), row("default", 0.65)}, Namespaces: []inspect.SavingsRow{row("shop", 0.6), row("train", 0.3), row(inspect.RowIdle, 0.1)},
		}
		if i < 6 {
			d.Total.Bound, d.Total.BoundSpent = cost*0.86, cost
		}
		out.Days = append(out.Days, d)
	}
	return out
}

// lively is a fleet in which something happens.
func lively(f *inspect.Fleet) {
	f.Totals.Bound = f.Totals.Hourly * 0.87
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case i%31 == 3:
			n.State, n.Moving = inspect.Removing, []string{"default/web-3-1"}
		case i%37 == 9:
			n.State = inspect.Launching
		case i%17 == 6:
			n.Blocked = &inspect.Finding{Code: "PodDisruptionBudget", Text: "PodDisruptionBudget default/db allows no eviction"}
		}
	}
	for i := range f.Pending {
		p := &f.Pending[i]
		p.Since = f.At.Add(-time.Duration(4+i) * time.Minute)
		if i > 0 {
			p.Planned = "nodeclaim/default-x7k2p"
			continue
		}
		p.Why = []inspect.Finding{{Text: "500 CPU is more than any instance type of NodePool default has; m5.2xlarge has 7.92", Fix: "Lower the request, or allow larger instance types."}, {}}
	}
}
