package dashboard

func disruption() Board {
	return Board{Name: "disruption", Title: "Disruption", Description: "Which nodes are removed and why, what blocks the disruption of others, and how long drains take.", Rows: []Row{
		{Title: "Now", Panels: []Panel{
			{Title: "Nodes blocked from disruption", Description: "By a budget, a pod, a PodDisruptionBudget or an annotation.", Unit: "none", Stat: true, Queries: one(`sum(dovetail_disruption_blocked_nodes{`+ofPool+`}) or vector(0)`, "")},
			{Title: "Blocked drains", Description: "Nodes that are being removed and wait for pods, volumes or their instance.", Unit: "none", Stat: true, Queries: one(`sum(dovetail_nodes_drain_blocked{`+ofPool+`}) or vector(0)`, "")},
			{Title: "Longest blocked drain", Description: "For how long the longest of them has waited.", Unit: "s", Stat: true, Warn: 1800, Queries: one(`max(dovetail_nodes_drain_blocked_seconds{`+ofPool+`}) or vector(0)`, "")},
			{Title: "Drifted NodeClaims", Description: "NodeClaims that differ from their NodePool or EC2NodeClass.", Unit: "none", Stat: true, Queries: one(`count(operator_nodeclaim_status_condition_count{type="Drifted", status="True"}) or vector(0)`, "")},
		}},
		{Title: "Disruptions", Panels: []Panel{
			{Title: "NodeClaims disrupted", Description: "NodeClaims whose disruption began, voluntary or not, by reason, per interval.", Unit: "none", Stack: true, Queries: one(`sum by (reason) (increase(karpenter_nodeclaims_disrupted_total{`+ofPool+`}`+each+`))`, "{{reason}}")},
			{Title: "Pods disrupted", Description: "Pods on these nodes that had to be scheduled again, per interval.", Unit: "none", Stack: true, Queries: one(`sum by (reason) (increase(karpenter_pods_disruption_initiated_total{`+ofPool+`}`+each+`))`, "{{reason}}")},
			{Title: "Voluntary decisions", Description: "Decisions to remove or replace nodes, per interval.", Unit: "none", Queries: one(`sum by (decision, reason) (increase(karpenter_voluntary_disruption_decisions_by_nodepool_total{`+ofPool+`}`+each+`))`, "{{decision}} {{reason}}")},
			{Title: "Interruption messages", Description: "Messages from the interruption queue by kind, per interval.", Unit: "none", Queries: one(`sum by (message_type) (increase(karpenter_interruption_received_messages_total`+each+`))`, "{{message_type}}")},
			{Title: "Delay of interruption messages", Description: "From the event in AWS until its message is handled. Spot instances are taken back two minutes after the event.", Unit: "s", Warn: 60, Queries: quantiles("karpenter_interruption_message_queue_duration_seconds_bucket", "")},
			{Title: "Eligible nodes", Description: "Nodes that may be disrupted, by reason.", Unit: "none", Queries: one(`max by (reason) (karpenter_voluntary_disruption_eligible_nodes)`, "{{reason}}")},
		}},
		{Title: "What blocks disruption", Panels: []Panel{
			{Title: "Blocked nodes by reason", Description: "docs/reference/reasons.md explains each reason and says what to do.", Unit: "none", Stack: true, Queries: one(`sum by (reason) (dovetail_disruption_blocked_nodes{`+ofPool+`})`, "{{reason}}")},
			{Title: "Allowed disruptions", Description: "How many more nodes the budgets of a NodePool allow to disrupt now.", Unit: "none", Queries: one(`min by (nodepool, reason) (karpenter_nodepools_allowed_disruptions{`+ofPool+`})`, "{{nodepool}} {{reason}}")},
			{Title: "Nodes consuming budgets", Description: "Nodes that count against the budgets of their NodePool.", Unit: "none", Queries: one(`max by (nodepool, reason) (karpenter_nodepools_nodes_consuming_budgets{`+ofPool+`})`, "{{nodepool}} {{reason}}")},
			{Title: "Failed disruptions", Description: "Decisions that failed validation, commands that were rolled back, and searches for consolidation that timed out, per interval.", Unit: "none", Queries: []Query{
				{`sum by (consolidation_type) (increase(karpenter_voluntary_disruption_failed_validations_total` + each + `)) or vector(0)`, "failed validation {{consolidation_type}}"},
				{`sum by (reason) (increase(karpenter_voluntary_disruption_queue_failures_total` + each + `)) or vector(0)`, "rolled back {{reason}}"},
				{`sum by (consolidation_type) (increase(karpenter_voluntary_disruption_consolidation_timeouts_total` + each + `))`, "timed out {{consolidation_type}}"},
			}},
		}},
		{Title: "Drains", Panels: []Panel{
			{Title: "Blocked drains by cause", Description: "Waits in docs/reference/reasons.md explains each cause and says what to do.", Unit: "none", Stack: true, Queries: one(`sum by (nodepool, reason) (dovetail_nodes_drain_blocked{`+ofPool+`})`, "{{nodepool}} {{reason}}")},
			{Title: "Eviction requests", Description: "By response code of the API server, per interval: 429 means that a PodDisruptionBudget does not allow it now.", Unit: "none", Queries: one(`sum by (code) (increase(karpenter_pods_eviction_requests_total`+each+`))`, "{{code}}")},
			{Title: "Time to terminate a NodeClaim", Description: "From the request to delete it until its finalizer is removed.", Unit: "s", Queries: quantiles(`karpenter_nodeclaims_termination_duration_seconds_bucket{`+ofPool+`}`, "nodepool")},
			{Title: "Time to terminate an instance", Description: "From the request to terminate it until EC2 says that it is terminated.", Unit: "s", Queries: quantiles(`karpenter_nodeclaims_instance_termination_duration_seconds_bucket{`+ofPool+`}`, "nodepool")},
		}},
	}}
}

func performance() Board {
	const job = `{` + ofJob + `}`
	return Board{Name: "performance", Title: "Performance", Description: "How fast pods get nodes, and how the controller itself is doing.", Rows: []Row{
		{Title: "Now", Panels: []Panel{
			{Title: "Version", Description: "Version of the controller.", Unit: "none", Stat: true, Queries: one(`count by (version) (karpenter_build_info`+job+`)`, "{{version}}")},
			{Title: "Leaders", Description: "Replicas that hold the lease. 0 means that nothing is decided; more than 1 means that several clusters are shown.", Unit: "none", Stat: true, Least: 1, Queries: one(`sum(leader_election_master_status`+job+`)`, "")},
			{Title: "Cluster state synced", Description: "1 if all nodes and NodeClaims are known to the controller. It decides nothing before.", Unit: "none", Stat: true, Least: 1, Queries: one(`max(karpenter_cluster_state_synced`+job+`)`, "")},
			{Title: "Nodes in cluster state", Description: "Nodes that the controller knows, unmanaged ones included.", Unit: "none", Stat: true, Queries: one(`max(karpenter_cluster_state_node_count`+job+`)`, "")},
		}},
		{Title: "Pods", Panels: []Panel{
			{Title: "Time to bind pods that need a node", Description: "From the first look at a pending pod until it is bound, the launch of its node included.", Unit: "s", Queries: quantiles("karpenter_pods_provisioning_bound_duration_seconds_bucket", "")},
			{Title: "Time to decide about a pod", Description: "From the first look at a pending pod until it is decided where it will run: the part of the wait that is due to the controller.", Unit: "s", Queries: quantiles("karpenter_pods_scheduling_decision_duration_seconds_bucket", "")},
			{Title: "Startup time of pods", Description: "From the creation of a pod until it is ready, of all pods.", Unit: "s", Queries: one(`max by (quantile) (karpenter_pods_startup_duration_seconds{quantile=~"0.5|0.99"})`, "{{quantile}}")},
			{Title: "Placement of planned pods", Description: "Pods that were bound to the node that was planned for them, or elsewhere, per interval.", Unit: "none", Stack: true, Queries: one(`sum by (place) (increase(dovetail_pods_landed_total`+each+`))`, "{{place}}")},
		}},
		{Title: "Decisions", Panels: []Panel{
			{Title: "Scheduling duration", Description: "Time to make a plan, by controller: provisioner for pending pods, disruption for simulations.", Unit: "s", Queries: quantiles("karpenter_scheduler_scheduling_duration_seconds_bucket", "controller")},
			{Title: "Evaluation of disruption", Description: "Time to decide which nodes to disrupt, by reason.", Unit: "s", Queries: quantiles("karpenter_voluntary_disruption_decision_evaluation_duration_seconds_bucket", "reason")},
		}},
		{Title: "Controllers", Panels: []Panel{
			{Title: "Reconciles", Description: "A second, by controller.", Unit: "ops", Queries: one(`sum by (controller) (rate(controller_runtime_reconcile_total`+job+each+`)) > 0`, "{{controller}}")},
			{Title: "Reconcile errors", Description: "A second, by controller. Each is a line of the log at level ERROR.", Unit: "ops", Queries: one(`sum by (controller) (rate(controller_runtime_reconcile_errors_total`+job+each+`))`, "{{controller}}")},
			{Title: "Duration of a reconcile", Description: "99th percentile, by controller.", Unit: "s", Queries: one(`histogram_quantile(0.99, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket`+job+each+`)))`, "{{controller}}")},
			{Title: "Work queue depth", Description: "Objects that wait to be reconciled, by queue.", Unit: "none", Queries: one(`sum by (name) (workqueue_depth`+job+`)`, "{{name}}")},
		}},
		{Title: "Process and API server", Panels: []Panel{
			{Title: "CPU", Description: "Cores used by each replica.", Unit: "none", Queries: one(`rate(process_cpu_seconds_total`+job+each+`) and on (job, instance) karpenter_build_info`, "{{pod}}")},
			{Title: "Memory", Description: "Resident memory of each replica, and what of it is heap in use.", Unit: "bytes", Queries: []Query{
				{`process_resident_memory_bytes` + job + ` and on (job, instance) karpenter_build_info`, "{{pod}} resident"},
				{`go_memstats_heap_inuse_bytes` + job + ` and on (job, instance) karpenter_build_info`, "{{pod}} heap"},
			}},
			{Title: "Requests to the API server", Description: "A second, by response code.", Unit: "reqps", Queries: one(`sum by (code) (rate(client_go_request_total`+job+each+`))`, "{{code}}")},
			{Title: "Duration of requests to the API server", Description: "99th percentile by method.", Unit: "s", Queries: one(`histogram_quantile(0.99, sum by (le, method) (rate(client_go_request_duration_seconds_bucket`+job+each+`)))`, "{{method}}")},
		}},
	}}
}

func aws() Board {
	return Board{Name: "aws", Title: "AWS calls", Description: "Requests of the controller to AWS, how often they fail, and what EC2 has no capacity for.", Rows: []Row{
		{Title: "Requests", Panels: []Panel{
			{Title: "Requests by action", Description: "A second.", Unit: "reqps", Queries: one(`sum by (service, action) (rate(aws_sdk_go_request_total`+each+`)) > 0`, "{{service}} {{action}}")},
			{Title: "Failed requests", Description: "A second, by action and status code, after all attempts.", Unit: "reqps", Queries: one(`sum by (service, action, status_code) (rate(aws_sdk_go_request_total{status_code!~"2.."}`+each+`)) or vector(0)`, "{{service}} {{action}} {{status_code}}")},
			{Title: "Duration of a request", Description: "99th percentile by action, attempts and pauses between them included.", Unit: "s", Queries: one(`histogram_quantile(0.99, sum by (le, action) (rate(aws_sdk_go_request_duration_seconds_bucket`+each+`)))`, "{{action}}")},
			{Title: "Attempts for each request", Description: "More than 1 means retries: throttling, or failures of the network.", Unit: "none", Warn: 1.5, Queries: one(`sum by (service) (rate(aws_sdk_go_request_attempt_total`+each+`)) / sum by (service) (rate(aws_sdk_go_request_total`+each+`))`, "{{service}}")},
		}},
		{Title: "Cloud provider", Panels: []Panel{
			{Title: "Duration of a method", Description: "99th percentile by method of the cloud provider, such as Create for a launch.", Unit: "s", Queries: one(`histogram_quantile(0.99, sum by (le, method) (rate(karpenter_cloudprovider_duration_seconds_bucket`+each+`)))`, "{{method}}")},
			{Title: "Errors", Description: "By method and kind, per interval. After InsufficientCapacityError, other offerings are tried.", Unit: "none", Queries: one(`sum by (method, error) (increase(karpenter_cloudprovider_errors_total`+each+`)) or vector(0)`, "{{method}} {{error}}")},
			{Title: "Launch failures", Description: "Offerings that could not be launched, by reason, zone and capacity type, per interval.", Unit: "none", Stack: true, Queries: one(`sum by (reason, zone, capacity_type) (increase(karpenter_cloudprovider_instance_launch_failures_total`+each+`)) or vector(0)`, "{{reason}} {{zone}} {{capacity_type}}")},
			{Title: "Unavailable offerings", Description: "Offerings that are left out for a while after EC2 had no capacity for them, by zone and capacity type.", Unit: "none", Stack: true, Queries: one(`count by (zone, capacity_type) (karpenter_cloudprovider_instance_type_offering_available == 0) or vector(0)`, "{{zone}} {{capacity_type}}")},
			{Title: "Requests in a batch", Description: "How many requests share one call, on average.", Unit: "none", Queries: one(`sum by (batcher) (rate(karpenter_cloudprovider_batcher_batch_size_sum`+each+`)) / sum by (batcher) (rate(karpenter_cloudprovider_batcher_batch_size_count`+each+`))`, "{{batcher}}")},
			{Title: "Size of user data", Description: "As a share of the 16384 bytes that EC2 takes, by EC2NodeClass.", Unit: "percentunit", Warn: 0.9, Queries: one(`max by (nodeclass) (karpenter_ec2nodeclasses_userdata_bytes) / 16384`, "{{nodeclass}}")},
		}},
		{Title: "Interruption queue", Panels: []Panel{
			{Title: "Messages", Description: "Received and deleted, per interval. A message that is received and not deleted is received again.", Unit: "none", Queries: []Query{
				{`sum(increase(karpenter_interruption_received_messages_total` + each + `))`, "received"},
				{`sum(increase(karpenter_interruption_deleted_messages_total` + each + `))`, "deleted"},
			}},
			{Title: "Unhealthy instances", Description: "Instances that fail their status checks, per interval.", Unit: "none", Queries: one(`sum by (category) (increase(karpenter_interruption_instance_status_unhealthy_total`+each+`)) or vector(0)`, "{{category}}")},
		}},
	}}
}
