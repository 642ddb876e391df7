package config

import "time"

// Config is every setting of the controller, valid and ready for use. It is a value: build it once,
// hand each package the part it needs, and change nothing in it.
type Config struct {
	Service    string // name of the Service in front of the controller; nothing depends on it
	Namespace  string // where the controller runs; empty if it is not set
	Server     Server
	Kube       Kube
	Leader     Leader
	Process    Process
	Log        Log
	Batch      Batch
	Scheduling Scheduling
	Disruption Disruption
	Gates      Gates
	Compat     Compat
	Cloud      any // what the Section of the cloud has read; only its driver knows the type. nil: it was loaded without one
}

// Server is what the controller serves. Port 0 means any free port, which tests use.
type Server struct {
	MetricsPort          int
	HealthProbePort      int
	Profiling            bool // pprof on the metrics port
	Console              bool // the web page, on the metrics port; its data needs a token
	Decisions            bool // what was decided and why, on the metrics port, for those who may read it
	Ledger               bool // decisions and costs are kept in ConfigMaps
	ClusterStateDisabled bool // drop metrics and events that grow with the number of objects
}

// Kube limits the requests to the API server. The lease has a limiter of its own.
type Kube struct {
	QPS   int // requests per second; below 0 there is no limit
	Burst int
}

// Leader is leader election. LeaseDuration > RenewDeadline > 1.2 × RetryPeriod > 0.
type Leader struct {
	Disabled       bool
	WarmupDisabled bool // if not, standby replicas start their watches before they lead
	Name           string
	Namespace      string // of the lease; empty means the controller's own
	LeaseDuration  time.Duration
	RenewDeadline  time.Duration
	RetryPeriod    time.Duration
}

// Process is what the container may use.
type Process struct {
	MemoryLimit int64 // bytes; 0 or less means none
	CPUMillis   int   // requested millicores, above 0; scales worker counts
}

// Log says what is logged, and where.
type Log struct {
	Level            LogLevel
	OutputPaths      []string // at least one; stdout, stderr or a file
	ErrorOutputPaths []string // for faults of the logger itself
}

// LogLevel is the least important level that is logged.
type LogLevel string

// Log levels.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogError LogLevel = "error"
)

// Batch is the window in which pending pods are collected. 0 < Idle ≤ Max.
type Batch struct {
	Idle time.Duration // closes the window after this long without a new pod
	Max  time.Duration // closes it in any case
}

// Scheduling steers how pods are placed.
type Scheduling struct {
	PreferencePolicy   PreferencePolicy
	MinValuesPolicy    MinValuesPolicy
	IgnoreDRARequests  bool               // leave pods with resource claims alone
	NominatePods       bool               // have the scheduler try pods first where they were planned
	NodeFee            float64            // USD an hour that a node counts beyond its price when plans are compared
	SpotPoolShare      float64            // share of a workload that one spot pool should have at most; 0: any
	SpotSpreadMaxCost  float64            // what that may add to the prices of spot nodes, as a share
	SpotRisk           map[string]float64 // by instance type, or type/zone: what risk counts, as a share of the spot price
	DefaultConstraints []SpreadConstraint
}

// Disruption says what consolidating a node must be worth. Empty nodes go in any case.
type Disruption struct {
	Horizon time.Duration // for how long a saving is counted
	PodCost float64       // USD that moving a pod of ordinary cost is assumed to cost
	MinAge  time.Duration // younger nodes are not consolidated

	MinSaving float64 // share of the price of nodes that replacing them must save
}

// PreferencePolicy says what happens to preferred affinities and soft spreads.
type PreferencePolicy string

// Preference policies.
const (
	RespectPreferences PreferencePolicy = "Respect" // try them, relax one by one
	IgnorePreferences  PreferencePolicy = "Ignore"  // drop them
)

// MinValuesPolicy says what happens if the minValues of a NodePool cannot be met.
type MinValuesPolicy string

// Policies for minValues.
const (
	StrictMinValues     MinValuesPolicy = "Strict"     // no node
	BestEffortMinValues MinValuesPolicy = "BestEffort" // as many values as there are
)

// Gates switch features that are not settled yet (V15-01).
type Gates struct {
	NodeRepair                bool
	ReservedCapacity          bool
	SpotToSpotConsolidation   bool
	NodeOverlay               bool
	StaticCapacity            bool
	CapacityBuffer            bool
	TerminateFirstDrift       bool
	TerminateFirstRepair      bool
	PodDeletionCostManagement bool
}

// Compat chooses between old and new behaviour.
type Compat struct {
	Strict           bool // refuse manifests that only Dovetail is lenient about
	LegacyNodeRepair bool // with gate NodeRepair: the legacy controller instead of the disruption method (V15-02)
}
