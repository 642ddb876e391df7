package metric

import "github.com/prometheus/client_golang/prometheus"

// Set is every metric of the controller.
type Set struct {
	// General and NodeClaims.
	BuildInfo                             *prometheus.GaugeVec
	NodeClaimsCreated                     *prometheus.CounterVec
	NodeClaimsTerminated                  *prometheus.CounterVec
	NodeClaimsDisrupted                   *prometheus.CounterVec
	PodsDisruptionInitiated               *prometheus.CounterVec
	NodeClaimsUnhealthyDisrupted          *prometheus.CounterVec
	NodeClaimsTerminationDuration         *prometheus.HistogramVec
	NodeClaimsInstanceTerminationDuration *prometheus.HistogramVec

	// Nodes.
	NodesCreated             *prometheus.CounterVec
	NodesTerminated          *prometheus.CounterVec
	NodesDrained             *prometheus.CounterVec
	NodesDrainBlocked        *prometheus.GaugeVec
	NodesDrainBlockedTime    *prometheus.GaugeVec
	NodesTerminationDuration *prometheus.SummaryVec
	NodesLifetimeDuration    *prometheus.HistogramVec
	NodesAllocatable         *Live
	NodesTotalPodRequests    *Live
	NodesTotalPodLimits      *Live
	NodesTotalDaemonRequests *Live
	NodesTotalDaemonLimits   *Live
	NodesSystemOverhead      *Live
	NodesCurrentLifetime     *Live
	ClusterUtilization       *Live
	NodesReboots             *prometheus.CounterVec
	NodesRebootDuration      *prometheus.HistogramVec
	NodesRebootRecovery      *prometheus.HistogramVec

	// Pods.
	PodsState                       *Live
	PodsStartupDuration             *prometheus.SummaryVec
	PodsBoundDuration               *prometheus.HistogramVec
	PodsUnstartedTime               *Live
	PodsUnboundTime                 *Live
	PodsProvisioningBoundDuration   *prometheus.HistogramVec
	PodsProvisioningStartupDuration *prometheus.HistogramVec
	PodsProvisioningUnboundTime     *Live
	PodsProvisioningUnstartedTime   *Live
	PodsProvisioningUndecidedTime   *Live
	PodsSchedulingDecisionDuration  *prometheus.HistogramVec
	PodsLanded                      *prometheus.CounterVec
	PodsNominated                   *prometheus.CounterVec
	PodsEvictionRequests            *prometheus.CounterVec
	PodsDrained                     *prometheus.CounterVec

	// Costs, of the ledger.
	CostSpent              *prometheus.CounterVec
	CostUnconsolidated     *prometheus.CounterVec
	CostEvictions          *prometheus.CounterVec
	CostNamespaceSpent     *prometheus.CounterVec
	CostNamespaceEvictions *prometheus.CounterVec
	CostBound              *prometheus.CounterVec
	CostBoundSpent         *prometheus.CounterVec

	// Disruption.
	DisruptionEvaluationDuration *prometheus.HistogramVec
	DisruptionDecisions          *prometheus.CounterVec
	DisruptionDecisionsByPool    *prometheus.CounterVec
	DisruptionEligibleNodes      *prometheus.GaugeVec
	DisruptionBlockedNodes       *prometheus.GaugeVec
	DisruptionTimeouts           *prometheus.CounterVec
	DisruptionFailedValidations  *prometheus.CounterVec
	DisruptionQueueFailures      *prometheus.CounterVec
	DisruptionTerminateFirst     *prometheus.CounterVec
	DisruptionDriftBackoffs      *prometheus.CounterVec
	PoolsAllowedDisruptions      *prometheus.GaugeVec
	PoolsNodesConsumingBudgets   *prometheus.GaugeVec
	ConsolidationScore           *prometheus.HistogramVec
	ConsolidationMoves           *prometheus.CounterVec
	DeletionCostPending          *prometheus.GaugeVec
	DeletionCostWrites           *prometheus.CounterVec

	// Planning, state and pools.
	Panics                     *prometheus.CounterVec
	SchedulingDuration         *prometheus.HistogramVec
	SchedulerQueueDepth        *prometheus.GaugeVec
	SchedulerUnfinishedWork    *prometheus.GaugeVec
	SchedulerUnschedulablePods *prometheus.GaugeVec
	SchedulerRejectedPlans     *prometheus.CounterVec
	SchedulerIgnoredPods       *prometheus.GaugeVec
	SchedulerPodsByZone        *prometheus.GaugeVec
	ClusterStateNodes          *prometheus.GaugeVec
	ClusterStateSynced         *prometheus.GaugeVec
	ClusterStateUnsynced       *prometheus.GaugeVec
	PoolsUsage                 *Live
	PoolsLimit                 *Live
	PoolsCost                  *prometheus.GaugeVec
	PoolsCostErrors            *prometheus.CounterVec

	// Cloud.
	CloudDuration             *prometheus.HistogramVec
	CloudErrors               *prometheus.CounterVec
	InstanceTypeCPU           *prometheus.GaugeVec
	InstanceTypeMemory        *prometheus.GaugeVec
	OfferingAvailable         *prometheus.GaugeVec
	OfferingPrice             *prometheus.GaugeVec
	LaunchFailures            *prometheus.CounterVec
	TerminationFailures       *prometheus.CounterVec
	BatchTime                 *prometheus.HistogramVec
	BatchSize                 *prometheus.HistogramVec
	InterruptionReceived      *prometheus.CounterVec
	InterruptionDeleted       *prometheus.CounterVec
	InterruptionQueueDuration *prometheus.HistogramVec
	InstanceStatusUnhealthy   *prometheus.CounterVec
	UserDataBytes             *prometheus.GaugeVec
	SDKRequests               *prometheus.CounterVec
	SDKAttempts               *prometheus.CounterVec
	SDKRetries                *prometheus.HistogramVec
	SDKDuration               *prometheus.HistogramVec
	SDKAttemptDuration        *prometheus.HistogramVec

	// Requests to the API server.
	ClientRequests *prometheus.CounterVec
	ClientDuration *prometheus.HistogramVec

	// Conditions, by kind in lower case, and of all kinds in the old form.
	Conditions    map[string]Conditions
	AllConditions Conditions

	docs     []Doc
	nodeKeys []string
}
