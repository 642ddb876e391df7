package dashboard

import "fmt"

// Boards lists the dashboards. Queries name a metric's labels only where users see them too: Prometheus renames a label
// of a metric that it also gives to the target, such as namespace.
func Boards() []Board {
	return []Board{capacity(), cost(), disruption(), performance(), aws()}
}

// Parts of queries.
const (
	ofPool = `nodepool=~"$nodepool"`
	ofJob  = `job=~"$job"`
	each   = "[$__rate_interval]"
	nodes  = `karpenter_nodes_current_lifetime_seconds{` + ofPool + `}`
)

// quantiles are the median and the 99th percentile of a histogram, by a label that it has, or over all.
func quantiles(histogram, by string) []Query {
	keep, legend := "le", ""
	if by != "" {
		keep, legend = "le, "+by, " {{"+by+"}}"
	}
	of := func(quantile, name string) Query {
		return Query{fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s%s)))", quantile, keep, histogram, each), name + legend}
	}
	return []Query{of("0.5", "median"), of("0.99", "99 %")}
}

func one(expr, legend string) []Query { return []Query{{expr, legend}} }

func capacity() Board {
	requested := func(resource string) []Query {
		of := `{` + ofPool + `, resource_type="` + resource + `"}`
		return []Query{
			{`sum(karpenter_nodes_allocatable` + of + `)`, "allocatable"},
			{`sum(karpenter_nodes_total_pod_requests` + of + `) + sum(karpenter_nodes_total_daemon_requests` + of + `)`, "requested"},
			{`sum(karpenter_nodes_total_daemon_requests` + of + `)`, "requested by DaemonSets"},
		}
	}
	return Board{Name: "capacity", Title: "Capacity", Description: "Nodes, how much of them pods request, limits of NodePools, and pending pods.", Rows: []Row{
		{Title: "Now", Panels: []Panel{
			{Title: "Nodes", Description: "Nodes of the selected NodePools.", Unit: "none", Stat: true, Queries: one(`count(`+nodes+`)`, "")},
			{
				Title: "Unschedulable pods", Description: "Pods that no NodePool can have a node for. Their event FailedScheduling says why.", Unit: "none", Stat: true, Warn: 1,
				Queries: one(`max(karpenter_scheduler_unschedulable_pods_count{controller="provisioner"})`, ""),
			},
			{
				Title: "Ignored pods", Description: "Pods that are not planned for, such as those whose PersistentVolumeClaim does not exist.", Unit: "none", Stat: true, Warn: 1,
				Queries: one(`max(karpenter_scheduler_ignored_pods_count)`, ""),
			},
			{
				Title: "NodeClaims not ready", Description: "NodeClaims whose node has not joined yet, or is not ready.", Unit: "none", Stat: true,
				Queries: one(`count(operator_nodeclaim_status_condition_count{type="Ready", status!="True"}) or vector(0)`, ""),
			},
		}},
		{Title: "Nodes", Panels: []Panel{
			{Title: "Nodes by NodePool", Description: "Nodes of each NodePool.", Unit: "none", Stack: true, Queries: one(`count by (nodepool) (`+nodes+`)`, "{{nodepool}}")},
			{Title: "Nodes by capacity type", Description: "Nodes on spot, on demand and from reservations.", Unit: "none", Stack: true, Queries: one(`count by (capacity_type) (`+nodes+`)`, "{{capacity_type}}")},
			{Title: "Nodes by instance type", Description: "The ten most frequent instance types.", Unit: "none", Stack: true, Queries: one(`topk(10, count by (instance_type) (`+nodes+`))`, "{{instance_type}}")},
			{Title: "Nodes by zone", Description: "Nodes in each availability zone.", Unit: "none", Stack: true, Queries: one(`count by (zone) (`+nodes+`)`, "{{zone}}")},
			{Title: "Nodes created and removed", Description: "Nodes that registered, and nodes that were removed, per interval.", Unit: "none", Queries: []Query{
				{`sum by (nodepool) (increase(karpenter_nodes_created_total{` + ofPool + `}` + each + `))`, "{{nodepool}} created"},
				{`sum by (nodepool) (increase(karpenter_nodes_terminated_total{` + ofPool + `}` + each + `))`, "{{nodepool}} removed"},
			}},
			{
				Title: "NodeClaims created", Description: "By reason: pending pods (provisioned), or a disruption that replaces nodes. Per interval.", Unit: "none",
				Queries: one(`sum by (reason) (increase(karpenter_nodeclaims_created_total{`+ofPool+`}`+each+`))`, "{{reason}}"),
			},
		}},
		{Title: "Utilization", Panels: []Panel{
			{Title: "CPU", Description: "Cores that are allocatable on nodes, and that pods request.", Unit: "none", Queries: requested("cpu")},
			{Title: "Memory", Description: "Memory that is allocatable on nodes, and that pods request.", Unit: "bytes", Queries: requested("memory")},
			{
				Title: "Utilization of the cluster", Description: "Requests of all pods as a share of what is allocatable on all nodes, unmanaged nodes included.", Unit: "percent",
				Queries: one(`max by (resource_type) (karpenter_cluster_utilization_percent{resource_type=~"cpu|memory"})`, "{{resource_type}}"),
			},
			{
				Title: "Use of limits", Description: "Capacity of the nodes of a NodePool as a share of its spec.limits. At 100 % the NodePool gets no more nodes.", Unit: "percentunit", Warn: 0.9,
				Queries: one(`max by (nodepool, resource_type) (karpenter_nodepools_usage{`+ofPool+`}) / (max by (nodepool, resource_type) (karpenter_nodepools_limit{`+ofPool+`}) > 0)`, "{{nodepool}} {{resource_type}}"),
			},
		}},
		{Title: "Pending pods", Panels: []Panel{
			{
				Title: "Pending pods by zone", Description: "Pending pods by the zone that they can run in: its name, flexible, or none.", Unit: "none", Stack: true,
				Queries: one(`max by (zone) (karpenter_scheduler_pending_pods_by_effective_zone_count{controller="provisioner"})`, "{{zone}}"),
			},
			{
				Title: "Longest wait", Description: "Of the pods that a node is planned for and that are not bound yet.", Unit: "s", Warn: 900,
				Queries: one(`max(karpenter_pods_provisioning_unbound_time_seconds) or vector(0)`, "not bound"),
			},
		}},
	}}
}

func cost() Board {
	const (
		spent    = `sum(karpenter_nodepools_cost_total{` + ofPool + `})`
		prices   = `karpenter_cloudprovider_instance_type_offering_price_estimate`
		onDemand = `sum(count by (instance_type, zone) (` + nodes + `) * on (instance_type, zone) max by (instance_type, zone) (` + prices + `{capacity_type="on-demand"}))`
		cores    = `{` + ofPool + `, resource_type="cpu"}`
	)
	by := func(labels, legend string) []Query {
		return one(`sum by (`+labels+`) (count by (instance_type, zone, capacity_type) (`+nodes+`) * on (instance_type, zone, capacity_type) max by (instance_type, zone, capacity_type) (`+prices+`))`, legend)
	}
	return Board{Name: "cost", Title: "Cost and savings", Description: "What the nodes cost by the prices that Dovetail knows, without volumes, traffic, discounts and taxes.", Rows: []Row{
		{Title: "Now", Panels: []Panel{
			{Title: "USD an hour", Description: "Price of all nodes of the selected NodePools.", Unit: "currencyUSD", Stat: true, Queries: one(spent, "")},
			{Title: "USD a month", Description: "The same for 730 hours.", Unit: "currencyUSD", Stat: true, Queries: one(spent+" * 730", "")},
			{Title: "Saved against on-demand, an hour", Description: "What the same instances would cost on demand, less what they cost.", Unit: "currencyUSD", Stat: true, Queries: one(onDemand+" - "+spent, "")},
			{Title: "Saved against on-demand", Description: "The same as a share of the on-demand price.", Unit: "percentunit", Stat: true, Queries: one("1 - "+spent+" / "+onDemand, "")},
		}},
		{Title: "Cost", Panels: []Panel{
			{Title: "Cost and on-demand price", Description: "The distance between the lines is what spot and reservations save.", Unit: "currencyUSD", Wide: true, Queries: []Query{{spent, "cost"}, {onDemand, "the same on demand"}}},
			{Title: "Cost by NodePool", Description: "USD an hour of each NodePool.", Unit: "currencyUSD", Stack: true, Queries: one(`sum by (nodepool) (karpenter_nodepools_cost_total{`+ofPool+`})`, "{{nodepool}}")},
			{Title: "Cost by capacity type", Description: "USD an hour on spot, on demand and from reservations. Nodes of a type without a known price are left out.", Unit: "currencyUSD", Stack: true, Queries: by("capacity_type", "{{capacity_type}}")},
			{Title: "Cost by instance type", Description: "USD an hour of each instance type.", Unit: "currencyUSD", Stack: true, Queries: by("instance_type", "{{instance_type}}")},
			{Title: "Cost by zone", Description: "USD an hour in each availability zone.", Unit: "currencyUSD", Stack: true, Queries: by("zone", "{{zone}}")},
		}},
		{Title: "Value", Panels: []Panel{
			{
				Title: "USD an hour for each requested core", Description: "Falls when nodes are cheaper or fuller.", Unit: "currencyUSD",
				Queries: one(spent+` / (sum(karpenter_nodes_total_pod_requests`+cores+`) + sum(karpenter_nodes_total_daemon_requests`+cores+`))`, "a core"),
			},
			{
				Title: "Cost of unrequested CPU", Description: "USD an hour of a NodePool times the share of its cores that no pod requests: what consolidation could save at best.", Unit: "currencyUSD", Stack: true,
				Queries: one(`sum by (nodepool) (karpenter_nodepools_cost_total{`+ofPool+`}) * (1 - (sum by (nodepool) (karpenter_nodes_total_pod_requests`+cores+`) + sum by (nodepool) (karpenter_nodes_total_daemon_requests`+cores+`)) / sum by (nodepool) (karpenter_nodes_allocatable`+cores+`))`, "{{nodepool}}"),
			},
			{
				Title: "Consolidation decisions", Description: "Decisions to remove nodes that are empty or underutilized, or to replace them by cheaper ones, per interval.", Unit: "none",
				Queries: one(`sum by (decision, reason) (increase(karpenter_voluntary_disruption_decisions_total{reason=~"empty|underutilized"}`+each+`))`, "{{decision}} {{reason}}"),
			},
			{
				Title: "Spot as a share of on-demand", Description: "Average price of spot offerings as a share of the on-demand price of the same instance type, by zone.", Unit: "percentunit",
				Queries: one(`avg by (zone) (max by (instance_type, zone) (`+prices+`{capacity_type="spot"}) / on (instance_type, zone) max by (instance_type, zone) (`+prices+`{capacity_type="on-demand"}))`, "{{zone}}"),
			},
			{
				Title: "Nodes without a price", Description: "Nodes whose price could not be found, per interval. The cost above leaves them out.", Unit: "none",
				Queries: one(`sum by (nodepool) (increase(karpenter_nodepools_cost_tracker_errors_total`+each+`)) or vector(0)`, "{{nodepool}}"),
			},
		}},
	}}
}
