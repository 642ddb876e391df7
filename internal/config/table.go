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
	wantName    = "a name of lower case letters, digits, '-' and '.'"
	wantNoDots  = "a namespace: lower case letters, digits and '-'"
	wantNothing = "any text"
)

// coreSettings is every setting that does not depend on the cloud.
func coreSettings(c *Config) []Setting {
	return slices.Concat(servingSettings(c), leaderSettings(c), processSettings(c), planningSettings(c), consolidationSettings(c), gateSettings(c))
}

func servingSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "karpenter-service", Usage: "name of the controller's Service; accepted for compatibility, unused",
			As: Text(&c.Service, anyText, wantNothing),
		},
		{
			Flag: "metrics-port", Default: "8080", Helm: "controller.metrics.port",
			Usage: "port for metrics and profiling; 0 takes any free port",
			As:    Integer(&c.Server.MetricsPort, port, wantPort),
		},
		{
			Flag: "health-probe-port", Default: "8081", Helm: "controller.healthProbe.port",
			Usage: "port for the health and readiness probes; 0 takes any free port",
			As:    Integer(&c.Server.HealthProbePort, port, wantPort),
		},
		{
			Flag: "kube-client-qps", Default: "200", Helm: byEnv,
			Usage: "requests per second to the API server, sustained; below 0 there is no limit",
			As:    Integer(&c.Kube.QPS, notZero, "a whole number of 1 or more, or below 0 for no limit"),
		},
		{
			Flag: "kube-client-burst", Default: "300", Helm: byEnv,
			Usage: "requests to the API server at once",
			As:    Integer(&c.Kube.Burst, oneOrMore, "a whole number of 1 or more"),
		},
		{
			Flag: "enable-profiling", Default: "false", Helm: byEnv,
			Usage: "serve pprof on the metrics port",
			As:    Boolean(&c.Server.Profiling),
		},
		{
			Flag: "serve-decisions", Default: "true", Helm: byEnv,
			Usage: "serve what was decided and why at /debug/decisions on the metrics port, to holders of a token that may get that path",
			As:    Boolean(&c.Server.Decisions),
		},
		{
			Flag: "serve-console", Default: "false", Helm: byEnv,
			Usage: "serve a web page at /debug/console/ on the metrics port, with the fleet, its costs, decisions and what-if plans; it shows data only to holders of a token",
			As:    Boolean(&c.Server.Console),
		},
		{
			Flag: "ledger", Default: "false", Helm: "settings.ledger",
			Usage: "keep decisions and costs in ConfigMaps beside the controller, so that they survive restarts and changes of the leader; needs the right to write these",
			As:    Boolean(&c.Server.Ledger),
		},
		{
			Flag: "disable-cluster-state-observability", Default: "false", Helm: "settings.disableClusterStateObservability",
			Usage: "drop metrics of pods, nodes and NodePools, and metrics and events of conditions",
			As:    Boolean(&c.Server.ClusterStateDisabled),
		},
	}
}

func leaderSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "disable-controller-warmup", Default: "true", Helm: byEnv,
			Usage: "let standby replicas start their watches only when they lead; false makes fail-over faster",
			As:    Boolean(&c.Leader.WarmupDisabled),
		},
		{
			Flag: "disable-leader-election", Default: "false", Helm: byEnv,
			Usage: "run without a lease; never with two replicas",
			As:    Boolean(&c.Leader.Disabled),
		},
		{
			Flag: "leader-election-name", Default: "karpenter-leader-election", Helm: byEnv,
			Usage: "name of the lease; the default keeps Karpenter and Dovetail from acting at once",
			As:    Text(&c.Leader.Name, subdomain, wantName),
		},
		{
			Flag: "leader-election-namespace", Helm: byEnv,
			Usage: "namespace of the lease; needed outside a cluster",
			As:    Text(&c.Leader.Namespace, labelOrNothing, wantNoDots),
		},
		{
			Flag: "leader-election-lease-duration", Default: "15s", Helm: byEnv,
			Usage: "how long a lost leader blocks the others",
			As:    Period(&c.Leader.LeaseDuration, time.Second, "a duration of 1s or more"),
		},
		{
			Flag: "leader-election-renew-deadline", Default: "10s", Helm: byEnv,
			Usage: "how long the leader tries to renew before it gives up; less than the lease duration",
			As:    Period(&c.Leader.RenewDeadline, 1, wantPeriod),
		},
		{
			Flag: "leader-election-retry-period", Default: "2s", Helm: byEnv,
			Usage: "pause between two tries; less than 5/6 of the renew deadline",
			As:    Period(&c.Leader.RetryPeriod, 1, wantPeriod),
		},
		{
			Flag: "system-namespace", Usage: "namespace the controller runs in",
			As: Text(&c.Namespace, labelOrNothing, wantNoDots),
		},
	}
}

func processSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "memory-limit", Default: "-1", Helm: "controller.resources.limits.memory",
			Usage: "memory of the container in bytes, of which 90 % is the soft limit; 0 or less means none",
			As:    Integer(&c.Process.MemoryLimit, anyNumber, "a whole number of bytes"),
		},
		{
			Flag: "cpu-requests", Default: "1000", Helm: "controller.resources.requests.cpu",
			Usage: "CPU of the container in millicores, scales the number of workers; 0 or less means 1000",
			As:    millicores(&c.Process.CPUMillis),
		},
		{
			Flag: "log-level", Default: "info", Helm: "logLevel",
			Usage: "debug, info or error",
			As:    logLevel(&c.Log.Level),
		},
		{
			Flag: "log-output-paths", Default: "stdout", Helm: "logOutputPaths",
			Usage: "where the log goes: comma list of stdout, stderr and files",
			As:    list(&c.Log.OutputPaths),
		},
		{
			Flag: "log-error-output-paths", Default: "stderr", Helm: "logErrorOutputPaths",
			Usage: "where faults of the logger go: comma list of stdout, stderr and files",
			As:    list(&c.Log.ErrorOutputPaths),
		},
	}
}

func planningSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "batch-max-duration", Default: "10s", Helm: "settings.batchMaxDuration",
			Usage: "maximum time to collect pending pods before nodes are planned",
			As:    Period(&c.Batch.Max, 1, wantPeriod),
		},
		{
			Flag: "batch-idle-duration", Default: "1s", Helm: "settings.batchIdleDuration",
			Usage: "plan after this long without a new pending pod; at most the batch-max-duration",
			As:    Period(&c.Batch.Idle, 1, wantPeriod),
		},
		{
			Flag: "preference-policy", Default: "Respect", Helm: "settings.preferencePolicy",
			Usage: "Respect tries preferred affinities and soft spreads and relaxes them one by one, Ignore drops them",
			As:    choice(&c.Scheduling.PreferencePolicy, RespectPreferences, IgnorePreferences),
		},
		{
			Flag: "min-values-policy", Default: "Strict", Helm: "settings.minValuesPolicy",
			Usage: "if minValues cannot be met: Strict makes no node, BestEffort takes the values there are",
			As:    choice(&c.Scheduling.MinValuesPolicy, StrictMinValues, BestEffortMinValues),
		},
		{
			Flag: "ignore-dra-requests", Default: "true", Helm: "settings.ignoreDRARequests",
			Usage: "make no nodes for pods with resource claims, and read nothing of resource.k8s.io",
			As:    Boolean(&c.Scheduling.IgnoreDRARequests),
		},
		{
			Flag: "nominate-pods", Default: "true", Helm: "optionalRights.nominatePods",
			Usage: "have the scheduler try pods first on the node that was launched for them; needs the right to patch pods/status",
			As:    Boolean(&c.Scheduling.NominatePods),
		},
		{
			Flag: "node-fee", Default: "0.02", Helm: byEnv,
			Usage: "USD an hour that a node counts beyond its price when plans are compared: more means fewer, larger nodes",
			As:    Fraction(&c.Scheduling.NodeFee),
		},
		{
			Flag: "spot-pool-share", Default: "0.25", Helm: "settings.spotPoolShare",
			Usage: "share of a workload that one spot pool, an instance type in a zone, should have at most, as far as --spot-spread-max-cost pays for it; 0 sets no bound",
			As:    Fraction(&c.Scheduling.SpotPoolShare),
		},
		{
			Flag: "spot-spread-max-cost", Default: "0.03", Helm: byEnv,
			Usage: "what spreading workloads over spot pools may add to the prices of the spot nodes of a plan, as a share of them; 0 spreads only where that costs nothing",
			As:    Fraction(&c.Scheduling.SpotSpreadMaxCost),
		},
		{
			Flag: "spot-risk-table", Helm: byEnv,
			Usage: "what risk counts for spot offerings, as a share of their price, by instance type or type/zone: m5.large=0.1,c5.large/eu-west-1a=0.2",
			As:    shares(&c.Scheduling.SpotRisk),
		},
		{
			Flag: "scheduler-config", Helm: "settings.schedulerConfig",
			Usage: "default topology spread of the cluster as YAML or JSON: podTopologySpread.defaultConstraints",
			As:    schedulerConfig(&c.Scheduling.DefaultConstraints),
		},
	}
}

// consolidationSettings is what consolidation weighs. Its defaults are the ones under which internal/sim shows that a
// cluster stays cheap without churn.
func consolidationSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "consolidation-horizon", Default: "24h", Helm: "settings.consolidationHorizon",
			Usage: "for how long a saving is counted: nodes are consolidated only if they save more in this time than moving their pods costs",
			As:    Period(&c.Disruption.Horizon, 1, wantPeriod),
		},
		{
			Flag: "consolidation-pod-cost", Default: "0.01", Helm: "settings.consolidationPodCost",
			Usage: "USD that moving a pod is assumed to cost, for one without priority and deletion cost; 0 moves pods for any saving",
			As:    Fraction(&c.Disruption.PodCost),
		},
		{
			Flag: "consolidation-min-saving", Default: "0.1", Helm: "settings.consolidationMinSaving",
			Usage: "share of the price of nodes that replacing them by others must save; 0 replaces nodes for any saving; removing nodes without replacement saves all of it",
			As:    Fraction(&c.Disruption.MinSaving),
		},
		{
			Flag: "consolidation-min-node-age", Default: "0s", Helm: "settings.consolidationMinNodeAge",
			Usage: "nodes younger than this are not consolidated unless they are empty; 0s means that consolidateAfter alone says when",
			As:    Period(&c.Disruption.MinAge, 0, "a duration of 0s or more"),
		},
	}
}

func gateSettings(c *Config) []Setting {
	return []Setting{
		{
			Flag: "feature-gates", Helm: "settings.featureGates",
			Default: "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=true," +
				"StaticCapacity=false,CapacityBuffer=true,TerminateFirstDrift=false,TerminateFirstRepair=false," +
				"PodDeletionCostManagement=false",
			Usage: "features to switch: comma list of name=true or name=false; the rest keeps its default",
			As:    Switches(coreGates(&c.Gates)...),
		},
		{
			Flag: "legacy-node-repair", Default: "false", Helm: "settings.legacyNodeRepair",
			Usage: "with gate NodeRepair: repair nodes by force, outside of disruption budgets",
			As:    Boolean(&c.Compat.LegacyNodeRepair),
		},
		{
			Flag: "strict-compatibility", Default: "false", Helm: "settings.strictCompatibility",
			Usage: "refuse manifests that Karpenter would refuse, instead of reading them leniently",
			As:    Boolean(&c.Compat.Strict),
		},
	}
}
