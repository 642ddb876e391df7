package metric

func (b *builder) defineGeneral(s *Set) {
	s.BuildInfo = b.gauge("karpenter_build_info", "1, with what was built as labels", "version", "goversion", "goarch", "commit")
	s.NodeClaimsCreated = b.counter("karpenter_nodeclaims_created_total", "NodeClaims created", "reason", "nodepool", "min_values_relaxed")
	s.NodeClaimsTerminated = b.counter("karpenter_nodeclaims_terminated_total", "NodeClaims whose finalizer was removed", "nodepool", "capacity_type", "zone")
	s.NodeClaimsDisrupted = b.counter("karpenter_nodeclaims_disrupted_total", "NodeClaims whose disruption began", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
	s.PodsDisruptionInitiated = b.counter("karpenter_pods_disruption_initiated_total", "pods that have to move, on nodes whose disruption began", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
	s.NodeClaimsUnhealthyDisrupted = b.counter("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims removed by node repair", "condition", "nodepool", "capacity_type", "image_id", "termination_mode")
	s.NodeClaimsTerminationDuration = b.histogram("karpenter_nodeclaims_termination_duration_seconds", "from the request to delete a NodeClaim until its finalizer is gone", doubling(1, 12), "nodepool")
	s.NodeClaimsInstanceTerminationDuration = b.histogram("karpenter_nodeclaims_instance_termination_duration_seconds", "from the request to terminate an instance until it is terminated", doubling(1, 11), "nodepool")
}

func (b *builder) nodes(s *Set) {
	s.NodesCreated = b.counter("karpenter_nodes_created_total", "nodes that registered", "nodepool", "zone")
	s.NodesTerminated = b.counter("karpenter_nodes_terminated_total", "nodes whose finalizer was removed", "nodepool", "zone")
	s.NodesDrained = b.counter("karpenter_nodes_drained_total", "drains that were completed", "nodepool")
	s.NodesDrainBlocked = b.gauge("dovetail_nodes_drain_blocked", "terminating nodes that wait for pods, for volumes or for the termination of their instance, by what holds these: see Waits in reasons.md", "nodepool", "reason")
	s.NodesDrainBlockedTime = b.gauge("dovetail_nodes_drain_blocked_seconds", "the longest of these waits", "nodepool", "reason")
	s.NodesTerminationDuration = b.summary("karpenter_nodes_termination_duration_seconds", "from the request to delete a node until its finalizer is gone", "nodepool")
	s.NodesLifetimeDuration = b.histogram("karpenter_nodes_lifetime_duration_seconds", "age of nodes at their deletion", lifetimes(), "nodepool")
	s.NodesAllocatable = b.addLive("karpenter_nodes_allocatable", "what pods can use of a node", b.nodeLabels("resource_type")...)
	s.NodesTotalPodRequests = b.addLive("karpenter_nodes_total_pod_requests", "requests of the pods on a node, DaemonSets left out", b.nodeLabels("resource_type")...)
	s.NodesTotalPodLimits = b.addLive("karpenter_nodes_total_pod_limits", "limits of the pods on a node, DaemonSets left out", b.nodeLabels("resource_type")...)
	s.NodesTotalDaemonRequests = b.addLive("karpenter_nodes_total_daemon_requests", "requests of the DaemonSet pods on a node", b.nodeLabels("resource_type")...)
	s.NodesTotalDaemonLimits = b.addLive("karpenter_nodes_total_daemon_limits", "limits of the DaemonSet pods on a node", b.nodeLabels("resource_type")...)
	s.NodesSystemOverhead = b.addLive("karpenter_nodes_system_overhead", "capacity of a node that pods cannot use", b.nodeLabels("resource_type")...)
	s.NodesCurrentLifetime = b.addLive("karpenter_nodes_current_lifetime_seconds", "age of a node", b.nodeLabels()...)
	s.ClusterUtilization = b.addLive("karpenter_cluster_utilization_percent", "requests of all pods as a share of what all nodes offer", "resource_type")
	s.NodesReboots = b.counter("karpenter_nodes_reboots_total", "reboots by node repair", "result")
	s.NodesRebootDuration = b.histogram("karpenter_nodes_reboot_duration_seconds", "from the request to reboot a node until its end", doubling(10, 8), "result")
	s.NodesRebootRecovery = b.histogram("karpenter_nodes_reboot_recovery_duration_seconds", "from the reboot of a node until it is back", doubling(10, 8))
}

func (b *builder) pods(s *Set) {
	s.PodsState = b.addLive("karpenter_pods_state", "1 for each pod, with its state as labels", "name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed")
	s.PodsStartupDuration = b.summary("karpenter_pods_startup_duration_seconds", "from the creation of a pod until it is ready")
	s.PodsBoundDuration = b.histogram("karpenter_pods_bound_duration_seconds", "from the creation of a pod until it is bound", durations(), "dynamic_resources")
	s.PodsUnstartedTime = b.addLive("karpenter_pods_unstarted_time_seconds", "age of a pod that is not ready", "name", "namespace")
	s.PodsUnboundTime = b.addLive("karpenter_pods_unbound_time_seconds", "age of a pod that is not bound", "name", "namespace", "dynamic_resources")
	s.PodsProvisioningBoundDuration = b.histogram("karpenter_pods_provisioning_bound_duration_seconds", "from a pod being found placeable until it is bound", durations(), "dynamic_resources")
	s.PodsProvisioningStartupDuration = b.histogram("karpenter_pods_provisioning_startup_duration_seconds", "from a pod being found placeable until it is ready", durations())
	s.PodsProvisioningUnboundTime = b.addLive("karpenter_pods_provisioning_unbound_time_seconds", "time since a pod was found placeable that is not bound", "name", "namespace", "dynamic_resources")
	s.PodsProvisioningUnstartedTime = b.addLive("karpenter_pods_provisioning_unstarted_time_seconds", "time since a pod was found placeable that is not ready", "name", "namespace")
	s.PodsProvisioningUndecidedTime = b.addLive("karpenter_pods_provisioning_scheduling_undecided_time_seconds", "time since a pod was first seen for which nothing was decided yet", "name", "namespace")
	s.PodsSchedulingDecisionDuration = b.histogram("karpenter_pods_scheduling_decision_duration_seconds", "from a pod being seen first until the first decision about it", durations())
	s.PodsLanded = b.counter("dovetail_pods_landed_total", "pods that a plan placed and that were bound, by where: planned or elsewhere", "place")
	s.PodsNominated = b.counter("dovetail_pods_nominated_total", "requests to have the scheduler try a pod first where it was planned, by how they ended: done, taken (another client was faster), denied or failed", "result")
	s.PodsEvictionRequests = b.counter("karpenter_pods_eviction_requests_total", "requests to evict a pod, by the response of the API server", "code")
	s.PodsDrained = b.counter("karpenter_pods_drained_total", "pods evicted, or deleted at a deadline, in drains", "reason")
}

// costs are those of the ledger. Labels are its rows, of which there are about a hundred at most.
func (b *builder) costs(s *Set) {
	s.CostSpent = b.counter("dovetail_cost_spent_usd_total", "USD that nodes have cost while the controller observed them; it goes on after a restart with `--ledger`", "nodepool")
	s.CostUnconsolidated = b.counter("dovetail_cost_unconsolidated_usd_total", "USD that they would have cost without consolidation, estimated", "nodepool")
	s.CostEvictions = b.counter("dovetail_cost_evictions_total", "pods that were evicted, or deleted at a deadline, in the same time", "nodepool")
	s.CostNamespaceSpent = b.counter("dovetail_cost_namespace_spent_usd_total", "the same USD by the namespaces whose pods request the nodes; `(idle)` is what no pod requests", "namespace")
	s.CostNamespaceEvictions = b.counter("dovetail_cost_namespace_evictions_total", "the same pods by their namespace", "namespace")
	s.CostBound = b.counter("dovetail_cost_bound_usd_total", "USD that no nodes which held the pods would have cost less than, as long as that was known")
	s.CostBoundSpent = b.counter("dovetail_cost_bound_spent_usd_total", "USD that nodes have cost in that time")
}

func (b *builder) disruption(s *Set) {
	s.DisruptionEvaluationDuration = b.histogram("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", "time to decide about disruption", durations(), "reason", "consolidation_type")
	s.DisruptionDecisions = b.counter("karpenter_voluntary_disruption_decisions_total", "decisions to disrupt", "decision", "reason", "consolidation_type")
	s.DisruptionDecisionsByPool = b.counter("karpenter_voluntary_disruption_decisions_by_nodepool_total", "decisions to disrupt, by pool", "nodepool", "decision", "reason", "consolidation_type")
	s.DisruptionEligibleNodes = b.gauge("karpenter_voluntary_disruption_eligible_nodes", "nodes that may be disrupted", "reason")
	s.DisruptionBlockedNodes = b.gauge("dovetail_disruption_blocked_nodes", "nodes that something keeps from being disrupted, by what that is: a code of the reasons, in snake case", "nodepool", "reason")
	s.DisruptionTimeouts = b.counter("karpenter_voluntary_disruption_consolidation_timeouts_total", "searches for consolidation that ran out of time: all nodes together (`multi`, a minute) or a few at a time (`single`, three minutes); what was found until then is used", "consolidation_type")
	initSeries(s.DisruptionTimeouts, "multi", "single")
	s.DisruptionFailedValidations = b.counter("karpenter_voluntary_disruption_failed_validations_total", "moves that did not hold when they were checked again", "consolidation_type")
	initSeries(s.DisruptionFailedValidations, "empty", "multi", "single")
	s.DisruptionQueueFailures = b.counter("karpenter_voluntary_disruption_queue_failures_total", "commands that were rolled back", "decision", "reason", "consolidation_type")
	s.DisruptionTerminateFirst = b.counter("karpenter_voluntary_disruption_terminate_first_decisions_total", "decisions to remove a node before its replacement is there", "nodepool", "reason", "terminate_first_reason")
	s.DisruptionDriftBackoffs = b.counter("karpenter_voluntary_disruption_drift_backoffs_total", "times that drift of a pool was put off after a failure", "nodepool")
	s.PoolsAllowedDisruptions = b.gauge("karpenter_nodepools_allowed_disruptions", "nodes of a pool that may be disrupted now", "nodepool", "reason")
	s.PoolsNodesConsumingBudgets = b.gauge("karpenter_nodepools_nodes_consuming_budgets", "nodes of a pool that count against its budgets", "nodepool", "reason")
	s.ConsolidationScore = b.histogram("karpenter_consolidation_score", "score of moves under the policy Balanced", []float64{.1, .25, .33, .5, 1, 2, 5, 10}, "decision", "nodepool", "policy")
	s.ConsolidationMoves = b.counter("karpenter_consolidation_moves_total", "moves that were weighed", "decision", "nodepool", "policy")
	s.DeletionCostPending = b.gauge("karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes", "nodes whose pods wait for their deletion cost", "nodepool")
	s.DeletionCostWrites = b.counter("karpenter_pod_deletion_cost_pod_annotation_writes_total", "deletion costs written to pods", "result")
}

func (b *builder) definePlanning(s *Set) {
	s.Panics = b.counter("dovetail_panics_total", "panics that were recovered in loops that are not reconcilers", "controller")
	initSeries(s.Panics, "provisioner", "disruption", "nodeclaim.lifecycle", "interruption", "instance.garbagecollection")
	s.SchedulingDuration = b.histogram("karpenter_scheduler_scheduling_duration_seconds", "time to make one plan", durations(), "controller")
	s.SchedulerQueueDepth = b.gauge("karpenter_scheduler_queue_depth", "pods in the plan that is being made", "controller", "scheduling_id")
	s.SchedulerUnfinishedWork = b.gauge("karpenter_scheduler_unfinished_work_seconds", "time the plan that is being made has taken so far", "controller", "scheduling_id")
	s.SchedulerUnschedulablePods = b.gauge("karpenter_scheduler_unschedulable_pods_count", "pods that the last plan could not place", "controller")
	s.SchedulerRejectedPlans = b.counter("dovetail_scheduler_rejected_plans_total", "plans that broke a rule and were not carried out, by the first rule they broke; the pods that were left out have the reason in their events", "controller", "code")
	s.SchedulerIgnoredPods = b.gauge("karpenter_scheduler_ignored_pods_count", "pods that cannot be planned for")
	s.SchedulerPodsByZone = b.gauge("karpenter_scheduler_pending_pods_by_effective_zone_count", "pending pods by the zone they can run in: its name, flexible or none", "controller", "zone")
	s.ClusterStateNodes = b.gauge("karpenter_cluster_state_node_count", "nodes in the cluster state")
	s.ClusterStateSynced = b.gauge("karpenter_cluster_state_synced", "1 if the cluster state holds all nodes and NodeClaims")
	s.ClusterStateUnsynced = b.gauge("karpenter_cluster_state_unsynced_time_seconds", "time for which the cluster state has not been complete")
	s.PoolsUsage = b.addLive("karpenter_nodepools_usage", "capacity of the nodes of a pool", "nodepool", "resource_type")
	s.PoolsLimit = b.addLive("karpenter_nodepools_limit", "limits of a pool", "nodepool", "resource_type")
	s.PoolsCost = b.gauge("karpenter_nodepools_cost_total", "price of the nodes of a pool in USD an hour", "nodepool")
	s.PoolsCostErrors = b.counter("karpenter_nodepools_cost_tracker_errors_total", "nodes whose price could not be found", "nodepool")
}

func (b *builder) defineCloud(s *Set) {
	s.CloudDuration = b.histogram("karpenter_cloudprovider_duration_seconds", "time the cloud took for a call", durations(), "controller", "method", "provider")
	s.CloudErrors = b.counter("karpenter_cloudprovider_errors_total", "calls of the cloud that failed", "controller", "method", "provider", "error", "nodepool")
	s.InstanceTypeCPU = b.gauge("karpenter_cloudprovider_instance_type_cpu_cores", "cores of an instance type", "instance_type")
	s.InstanceTypeMemory = b.gauge("karpenter_cloudprovider_instance_type_memory_bytes", "memory of an instance type", "instance_type")
	s.OfferingAvailable = b.gauge("karpenter_cloudprovider_instance_type_offering_available", "1 if the offering is available, as far as is known", "instance_type", "capacity_type", "zone")
	s.OfferingPrice = b.gauge("karpenter_cloudprovider_instance_type_offering_price_estimate", "price of an offering in USD an hour", "instance_type", "capacity_type", "zone")
	s.LaunchFailures = b.counter("karpenter_cloudprovider_instance_launch_failures_total", "offerings that could not be launched", "zone", "zone_id", "capacity_type", "reason")
	s.TerminationFailures = b.counter("karpenter_cloudprovider_instance_termination_failures_total", "instances that could not be ended", "zone", "zone_id")
	s.BatchTime = b.histogram("karpenter_cloudprovider_batcher_batch_time_seconds", "time a batch of requests was collected", durations(), "batcher")
	s.BatchSize = b.histogram("karpenter_cloudprovider_batcher_batch_size", "requests in a batch", sizes(), "batcher")
	s.InterruptionReceived = b.counter("karpenter_interruption_received_messages_total", "messages received from the interruption queue", "message_type")
	s.InterruptionDeleted = b.counter("karpenter_interruption_deleted_messages_total", "messages deleted from the interruption queue")
	s.InterruptionQueueDuration = b.histogram("karpenter_interruption_message_queue_duration_seconds", "from the event in the cloud until its message is handled", durations())
	s.InstanceStatusUnhealthy = b.counter("karpenter_interruption_instance_status_unhealthy_total", "instances found unhealthy, once per episode", "category")
	initSeries(s.InstanceStatusUnhealthy, "InstanceStatus", "SystemStatus", "EventStatus")
	s.UserDataBytes = b.gauge("karpenter_ec2nodeclasses_userdata_bytes", "size of the user data of a node class; 16384 at most", "nodeclass")
	s.SDKRequests = b.counter("aws_sdk_go_request_total", "requests to the API of the cloud", "service", "action", "status_code")
	s.SDKAttempts = b.counter("aws_sdk_go_request_attempt_total", "attempts at requests to the API of the cloud", "service", "action", "status_code")
	s.SDKRetries = b.histogram("aws_sdk_go_request_retry_count", "attempts beyond the first", []float64{0, 1, 2, 3, 4, 5, 10}, "service", "action")
	s.SDKDuration = b.histogram("aws_sdk_go_request_duration_seconds", "time a request to the API of the cloud took, attempts included", durations(), "service", "action")
	s.SDKAttemptDuration = b.histogram("aws_sdk_go_request_attempt_duration_seconds", "time one attempt took", durations(), "service", "action")
}

func (b *builder) defineClient(s *Set) {
	s.ClientRequests = b.counter("client_go_request_total", "requests to the API server", "code", "method")
	s.ClientDuration = b.histogram("client_go_request_duration_seconds", "time until the API server responded, watches included", durations(), "method")
}
