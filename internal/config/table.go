package config

import (
	"slices"
	"time"
)

// byEnv is the Helm value of settings that have no value of their own.
const byEnv = "controller.env"

// Words for what a setting accepts.
const (
	wantPeriod  = "a duration above 0, such as 10s"
	wantPort    = "a port from 1 to 65535, or 0 for any free one"
	wantMinute  = "a duration of 1m or more"
	wantName    = "a name of lower case letters, digits, '-' and '.'"
	wantNoDots  = "a namespace: lower case letters, digits and '-'"
	wantNothing = "any text"
)

// allSettings is every setting. Its rows are the frozen surface of testdata/settings.txt.
func allSettings() []setting {
	return slices.Concat(servingSettings(), leaderSettings(), processSettings(), planningSettings(), consolidationSettings(), gateSettings(), clusterSettings(), awsSettings())
}

func servingSettings() []setting {
	return []setting{
		{
			flag: "karpenter-service", usage: "name of the controller's Service; accepted for compatibility, unused",
			as: text(func(c *Config) *string { return &c.Service }, anyText, wantNothing),
		},
		{
			flag: "metrics-port", def: "8080", helm: "controller.metrics.port",
			usage: "port for metrics and profiling; 0 takes any free port",
			as:    integer(func(c *Config) *int { return &c.Server.MetricsPort }, port, wantPort),
		},
		{
			flag: "health-probe-port", def: "8081", helm: "controller.healthProbe.port",
			usage: "port for the health and readiness probes; 0 takes any free port",
			as:    integer(func(c *Config) *int { return &c.Server.HealthProbePort }, port, wantPort),
		},
		{
			flag: "kube-client-qps", def: "200", helm: byEnv,
			usage: "requests per second to the API server, sustained; below 0 there is no limit",
			as:    integer(func(c *Config) *int { return &c.Kube.QPS }, notZero, "a whole number of 1 or more, or below 0 for no limit"),
		},
		{
			flag: "kube-client-burst", def: "300", helm: byEnv,
			usage: "requests to the API server at once",
			as:    integer(func(c *Config) *int { return &c.Kube.Burst }, oneOrMore, "a whole number of 1 or more"),
		},
		{
			flag: "enable-profiling", def: "false", helm: byEnv,
			usage: "serve pprof on the metrics port",
			as:    boolean(func(c *Config) *bool { return &c.Server.Profiling }),
		},
		{
			flag: "serve-decisions", def: "true", helm: byEnv,
			usage: "serve what was decided and why at /debug/decisions on the metrics port, to holders of a token that may get that path",
			as:    boolean(func(c *Config) *bool { return &c.Server.Decisions }),
		},
		{
			flag: "serve-console", def: "false", helm: byEnv,
			usage: "serve a web page at /debug/console/ on the metrics port, with the fleet, its costs, decisions and what-if plans; it shows data only to holders of a token",
			as:    boolean(func(c *Config) *bool { return &c.Server.Console }),
		},
		{
			flag: "ledger", def: "false", helm: "settings.ledger",
			usage: "keep decisions and costs in ConfigMaps beside the controller, so that they survive restarts and changes of the leader; needs the right to write these",
			as:    boolean(func(c *Config) *bool { return &c.Server.Ledger }),
		},
		{
			flag: "disable-cluster-state-observability", def: "false", helm: "settings.disableClusterStateObservability",
			usage: "drop metrics of pods, nodes and NodePools, and metrics and events of conditions",
			as:    boolean(func(c *Config) *bool { return &c.Server.ClusterStateDisabled }),
		},
	}
}

func leaderSettings() []setting {
	return []setting{
		{
			flag: "disable-controller-warmup", def: "true", helm: byEnv,
			usage: "let standby replicas start their watches only when they lead; false makes fail-over faster",
			as:    boolean(func(c *Config) *bool { return &c.Leader.WarmupDisabled }),
		},
		{
			flag: "disable-leader-election", def: "false", helm: byEnv,
			usage: "run without a lease; never with two replicas",
			as:    boolean(func(c *Config) *bool { return &c.Leader.Disabled }),
		},
		{
			flag: "leader-election-name", def: "karpenter-leader-election", helm: byEnv,
			usage: "name of the lease; the default keeps Karpenter and Dovetail from acting at once",
			as:    text(func(c *Config) *string { return &c.Leader.Name }, subdomain, wantName),
		},
		{
			flag: "leader-election-namespace", helm: byEnv,
			usage: "namespace of the lease; needed outside a cluster",
			as:    text(func(c *Config) *string { return &c.Leader.Namespace }, labelOrNothing, wantNoDots),
		},
		{
			flag: "leader-election-lease-duration", def: "15s", helm: byEnv,
			usage: "how long a lost leader blocks the others",
			as:    period(func(c *Config) *time.Duration { return &c.Leader.LeaseDuration }, time.Second, "a duration of 1s or more"),
		},
		{
			flag: "leader-election-renew-deadline", def: "10s", helm: byEnv,
			usage: "how long the leader tries to renew before it gives up; less than the lease duration",
			as:    period(func(c *Config) *time.Duration { return &c.Leader.RenewDeadline }, 1, wantPeriod),
		},
		{
			flag: "leader-election-retry-period", def: "2s", helm: byEnv,
			usage: "pause between two tries; less than 5/6 of the renew deadline",
			as:    period(func(c *Config) *time.Duration { return &c.Leader.RetryPeriod }, 1, wantPeriod),
		},
		{
			flag: "system-namespace", usage: "namespace the controller runs in",
			as: text(func(c *Config) *string { return &c.Namespace }, labelOrNothing, wantNoDots),
		},
	}
}

func processSettings() []setting {
	return []setting{
		{
			flag: "memory-limit", def: "-1", helm: "controller.resources.limits.memory",
			usage: "memory of the container in bytes, of which 90 % is the soft limit; 0 or less means none",
			as:    integer(func(c *Config) *int64 { return &c.Process.MemoryLimit }, anyNumber, "a whole number of bytes"),
		},
		{
			flag: "cpu-requests", def: "1000", helm: "controller.resources.requests.cpu",
			usage: "CPU of the container in millicores, scales the number of workers; 0 or less means 1000",
			as:    millicores(func(c *Config) *int { return &c.Process.CPUMillis }),
		},
		{
			flag: "log-level", def: "info", helm: "logLevel",
			usage: "debug, info or error",
			as:    logLevel(),
		},
		{
			flag: "log-output-paths", def: "stdout", helm: "logOutputPaths",
			usage: "where the log goes: comma list of stdout, stderr and files",
			as:    list(func(c *Config) *[]string { return &c.Log.OutputPaths }),
		},
		{
			flag: "log-error-output-paths", def: "stderr", helm: "logErrorOutputPaths",
			usage: "where faults of the logger go: comma list of stdout, stderr and files",
			as:    list(func(c *Config) *[]string { return &c.Log.ErrorOutputPaths }),
		},
	}
}

func planningSettings() []setting {
	return []setting{
		{
			flag: "batch-max-duration", def: "10s", helm: "settings.batchMaxDuration",
			usage: "maximum time to collect pending pods before nodes are planned",
			as:    period(func(c *Config) *time.Duration { return &c.Batch.Max }, 1, wantPeriod),
		},
		{
			flag: "batch-idle-duration", def: "1s", helm: "settings.batchIdleDuration",
			usage: "plan after this long without a new pending pod; at most the batch-max-duration",
			as:    period(func(c *Config) *time.Duration { return &c.Batch.Idle }, 1, wantPeriod),
		},
		{
			flag: "preference-policy", def: "Respect", helm: "settings.preferencePolicy",
			usage: "Respect tries preferred affinities and soft spreads and relaxes them one by one, Ignore drops them",
			as:    choice(func(c *Config) *PreferencePolicy { return &c.Scheduling.PreferencePolicy }, RespectPreferences, IgnorePreferences),
		},
		{
			flag: "min-values-policy", def: "Strict", helm: "settings.minValuesPolicy",
			usage: "if minValues cannot be met: Strict makes no node, BestEffort takes the values there are",
			as:    choice(func(c *Config) *MinValuesPolicy { return &c.Scheduling.MinValuesPolicy }, StrictMinValues, BestEffortMinValues),
		},
		{
			flag: "ignore-dra-requests", def: "true", helm: "settings.ignoreDRARequests",
			usage: "make no nodes for pods with resource claims, and read nothing of resource.k8s.io",
			as:    boolean(func(c *Config) *bool { return &c.Scheduling.IgnoreDRARequests }),
		},
		{
			flag: "nominate-pods", def: "true", helm: "optionalRights.nominatePods",
			usage: "have the scheduler try pods first on the node that was launched for them; needs the right to patch pods/status",
			as:    boolean(func(c *Config) *bool { return &c.Scheduling.NominatePods }),
		},
		{
			flag: "node-fee", def: "0.02", helm: byEnv,
			usage: "USD an hour that a node counts beyond its price when plans are compared: more means fewer, larger nodes",
			as:    fraction(func(c *Config) *float64 { return &c.Scheduling.NodeFee }),
		},
		{
			flag: "spot-pool-share", def: "0.25", helm: "settings.spotPoolShare",
			usage: "share of a workload that one spot pool, an instance type in a zone, should have at most, as far as --spot-spread-max-cost pays for it; 0 sets no bound",
			as:    fraction(func(c *Config) *float64 { return &c.Scheduling.SpotPoolShare }),
		},
		{
			flag: "spot-spread-max-cost", def: "0.03", helm: byEnv,
			usage: "what spreading workloads over spot pools may add to the prices of the spot nodes of a plan, as a share of them; 0 spreads only where that costs nothing",
			as:    fraction(func(c *Config) *float64 { return &c.Scheduling.SpotSpreadMaxCost }),
		},
		{
			flag: "spot-risk-table", helm: byEnv,
			usage: "what risk counts for spot offerings, as a share of their price, by instance type or type/zone: m5.large=0.1,c5.large/eu-west-1a=0.2",
			as:    shares(func(c *Config) *map[string]float64 { return &c.Scheduling.SpotRisk }),
		},
		{
			flag: "scheduler-config", helm: "settings.schedulerConfig",
			usage: "default topology spread of the cluster as YAML or JSON: podTopologySpread.defaultConstraints",
			as:    schedulerConfig(),
		},
	}
}

// consolidationSettings is what consolidation weighs. Its defaults are the ones under which internal/sim shows that a
// cluster stays cheap without churn.
func consolidationSettings() []setting {
	return []setting{
		{
			flag: "consolidation-horizon", def: "24h", helm: "settings.consolidationHorizon",
			usage: "for how long a saving is counted: nodes are consolidated only if they save more in this time than moving their pods costs",
			as:    period(func(c *Config) *time.Duration { return &c.Disruption.Horizon }, 1, wantPeriod),
		},
		{
			flag: "consolidation-pod-cost", def: "0.01", helm: "settings.consolidationPodCost",
			usage: "USD that moving a pod is taken to cost, for one without priority and deletion cost; 0 moves pods for any saving",
			as:    fraction(func(c *Config) *float64 { return &c.Disruption.PodCost }),
		},
		{
			flag: "consolidation-min-saving", def: "0.1", helm: "settings.consolidationMinSaving",
			usage: "share of the price of nodes that replacing them by others must save; 0 replaces nodes for any saving; removing nodes without replacement saves all of it",
			as:    fraction(func(c *Config) *float64 { return &c.Disruption.MinSaving }),
		},
		{
			flag: "consolidation-min-node-age", def: "0s", helm: "settings.consolidationMinNodeAge",
			usage: "nodes younger than this are not consolidated unless they are empty; 0s means that consolidateAfter alone says when",
			as:    period(func(c *Config) *time.Duration { return &c.Disruption.MinAge }, 0, "a duration of 0s or more"),
		},
	}
}

func gateSettings() []setting {
	return []setting{
		{
			flag: "feature-gates", helm: "settings.featureGates",
			def: "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=true," +
				"StaticCapacity=false,CapacityBuffer=true,TerminateFirstDrift=false,TerminateFirstRepair=false," +
				"PodDeletionCostManagement=false",
			usage: "features to switch: comma list of name=true or name=false; the rest keeps its default",
			as:    gates(coreGates),
		},
		{
			flag: "legacy-node-repair", def: "false", helm: "settings.legacyNodeRepair",
			usage: "with gate NodeRepair: repair nodes by force, outside of disruption budgets",
			as:    boolean(func(c *Config) *bool { return &c.Compat.LegacyNodeRepair }),
		},
		{
			flag: "strict-compatibility", def: "false", helm: "settings.strictCompatibility",
			usage: "refuse manifests that Karpenter would refuse, instead of reading them leniently",
			as:    boolean(func(c *Config) *bool { return &c.Compat.Strict }),
		},
	}
}
