package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/config"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

// example is one setting with a text that changes the Config, how, and texts that are refused.
type example struct {
	text    string
	want    func(*config.Config)
	invalid []string
}

// defaults is the Config of a start that names nothing but the cluster.
func defaults() config.Config {
	return config.Config{
		Server: config.Server{MetricsPort: 8080, HealthProbePort: 8081, Decisions: true},
		Kube:   config.Kube{QPS: 200, Burst: 300},
		Leader: config.Leader{
			WarmupDisabled: true, Name: "karpenter-leader-election",
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Process: config.Process{MemoryLimit: -1, CPUMillis: 1000},
		Log:     config.Log{Level: config.LogInfo, OutputPaths: []string{"stdout"}, ErrorOutputPaths: []string{"stderr"}},
		Batch:   config.Batch{Idle: time.Second, Max: 10 * time.Second},
		Scheduling: config.Scheduling{
			PreferencePolicy: config.RespectPreferences, MinValuesPolicy: config.StrictMinValues, IgnoreDRARequests: true, NominatePods: true, NodeFee: 0.02, SpotPoolShare: 0.25, SpotSpreadMaxCost: 0.03,
		},
		Disruption: config.Disruption{Horizon: 24 * time.Hour, PodCost: 0.01, MinSaving: 0.1},
		Gates:      config.Gates{NodeOverlay: true, ReservedCapacity: true, CapacityBuffer: true},
		Cloud:      cloudSettings{Cluster: "prod", Overhead: 0.075, Refresh: time.Minute},
	}
}

// cloudSettings are those of a cloud that has a setting of each kind that a cloud can have.
type cloudSettings struct {
	Cluster, Queue string
	Isolated, Fast bool
	Overhead       float64
	Spare          int
	Refresh        time.Duration
}

// ofCloud changes the settings of the cloud.
func ofCloud(change func(*cloudSettings)) func(*config.Config) {
	return func(c *config.Config) {
		s := c.Cloud.(cloudSettings)
		change(&s)
		c.Cloud = s
	}
}

// section is what the cloud adds to the table.
func section() (table []config.Setting, values func() any) {
	s := &cloudSettings{}
	return []config.Setting{
		{
			Flag: "cluster-name", Usage: "name of the cluster", Required: true,
			As: config.Text(&s.Cluster, func(text string) bool { return strings.TrimSpace(text) != "" }, "the name of the cluster"),
		},
		{Flag: "isolated", Usage: "call no service", Default: "false", As: config.Boolean(&s.Isolated)},
		{Flag: "overhead", Usage: "a fraction", Default: "0.075", As: config.Fraction(&s.Overhead), Odd: func() string {
			if s.Overhead >= 1 {
				return "7.5 % is 0.075"
			}
			return ""
		}},
		{Flag: "spare", Usage: "a number", Default: "0", As: config.Integer(&s.Spare, func(n int) bool { return n >= 0 }, "a whole number of 0 or more")},
		{Flag: "refresh", Usage: "how often", Default: "1m", As: config.Period(&s.Refresh, time.Minute, "a duration of 1m or more")},
		{Flag: "queue", Usage: "a name behind a prefix", As: config.Converted(&s.Queue, func(text string) (string, bool) {
			name, found := strings.CutPrefix(text, "name:")
			return name, found || text == ""
		}, "name: and a name")},
		{Flag: "cloud-gates", Usage: "features of the cloud", Default: "Fast=false", As: config.Switches(config.Gate{Name: "Fast", On: &s.Fast})},
	}, func() any { return *s }
}

// examples has a row for every setting; TestEverySettingHasAnExample keeps it so.
func examples() map[string]example {
	notBool := []string{"True", "1", "yes", "t", " true", "on"}
	notPeriod := []string{"0", "0s", "-1s", "10", "1d", "soon", "1 s"}
	notList := []string{",", "stdout,", "stdout,,stderr", " "}
	return map[string]example{
		"karpenter-service": {text: "karpenter", want: func(c *config.Config) { c.Service = "karpenter" }},
		"metrics-port": {
			text: "9090", want: func(c *config.Config) { c.Server.MetricsPort = 9090 },
			invalid: []string{"-1", "65536", "http", "80.5", "99999999999999999999", "0x50"},
		},
		"health-probe-port": {
			text: "0", want: func(c *config.Config) { c.Server.HealthProbePort = 0 },
			invalid: []string{"-1", "65536", "http"},
		},
		"kube-client-qps":   {text: "-1", want: func(c *config.Config) { c.Kube.QPS = -1 }, invalid: []string{"0", "many", "1.5"}},
		"kube-client-burst": {text: "1000", want: func(c *config.Config) { c.Kube.Burst = 1000 }, invalid: []string{"0", "-1", "many"}},
		"enable-profiling":  {text: "true", want: func(c *config.Config) { c.Server.Profiling = true }, invalid: notBool},
		"serve-decisions":   {text: "false", want: func(c *config.Config) { c.Server.Decisions = false }, invalid: notBool},
		"serve-console":     {text: "true", want: func(c *config.Config) { c.Server.Console = true }, invalid: notBool},
		"ledger":            {text: "true", want: func(c *config.Config) { c.Server.Ledger = true }, invalid: notBool},
		"disable-cluster-state-observability": {
			text: "true", want: func(c *config.Config) { c.Server.ClusterStateDisabled = true }, invalid: notBool,
		},
		"disable-controller-warmup": {text: "false", want: func(c *config.Config) { c.Leader.WarmupDisabled = false }, invalid: notBool},
		"disable-leader-election":   {text: "true", want: func(c *config.Config) { c.Leader.Disabled = true }, invalid: notBool},
		"leader-election-name":      {text: "mine", want: func(c *config.Config) { c.Leader.Name = "mine" }, invalid: []string{"Mine", "a b", "-"}},
		"leader-election-namespace": {
			text: "karpenter", want: func(c *config.Config) { c.Leader.Namespace = "karpenter" }, invalid: []string{"Mine", "a.b"},
		},
		"leader-election-lease-duration": {
			text: "1m", want: func(c *config.Config) { c.Leader.LeaseDuration = time.Minute },
			invalid: append([]string{"999ms"}, notPeriod...),
		},
		"leader-election-renew-deadline": {
			text: "12s", want: func(c *config.Config) { c.Leader.RenewDeadline = 12 * time.Second }, invalid: notPeriod,
		},
		"leader-election-retry-period": {
			text: "500ms", want: func(c *config.Config) { c.Leader.RetryPeriod = 500 * time.Millisecond }, invalid: notPeriod,
		},
		"system-namespace": {text: "kube-system", want: func(c *config.Config) { c.Namespace = "kube-system" }, invalid: []string{"a.b", "A"}},
		"memory-limit": {
			text: "1073741824", want: func(c *config.Config) { c.Process.MemoryLimit = 1 << 30 },
			invalid: []string{"1Gi", "1e9", "99999999999999999999"},
		},
		"cpu-requests": {text: "4000", want: func(c *config.Config) { c.Process.CPUMillis = 4000 }, invalid: []string{"1.5", "500m"}},
		"log-level":    {text: "debug", want: func(c *config.Config) { c.Log.Level = config.LogDebug }, invalid: []string{"warn", "INFO", " "}},
		"log-output-paths": {
			text: "stdout, /var/log/a.log", want: func(c *config.Config) { c.Log.OutputPaths = []string{"stdout", "/var/log/a.log"} },
			invalid: notList,
		},
		"log-error-output-paths": {
			text: "stdout", want: func(c *config.Config) { c.Log.ErrorOutputPaths = []string{"stdout"} }, invalid: notList,
		},
		"batch-max-duration":  {text: "1m30s", want: func(c *config.Config) { c.Batch.Max = 90 * time.Second }, invalid: notPeriod},
		"batch-idle-duration": {text: "2.5s", want: func(c *config.Config) { c.Batch.Idle = 2500 * time.Millisecond }, invalid: notPeriod},
		"preference-policy": {
			text: "Ignore", want: func(c *config.Config) { c.Scheduling.PreferencePolicy = config.IgnorePreferences },
			invalid: []string{"ignore", "Strict"},
		},
		"min-values-policy": {
			text: "BestEffort", want: func(c *config.Config) { c.Scheduling.MinValuesPolicy = config.BestEffortMinValues },
			invalid: []string{"Besteffort", "Respect"},
		},
		"node-fee": {
			text: "0.5", want: func(c *config.Config) { c.Scheduling.NodeFee = 0.5 },
			invalid: []string{"-0.1", "NaN", "Inf", "$1"},
		},
		"spot-pool-share": {
			text: "0.5", want: func(c *config.Config) { c.Scheduling.SpotPoolShare = 0.5 },
			invalid: []string{"-0.1", "NaN", "Inf", "25%"},
		},
		"spot-spread-max-cost": {
			text: "0.1", want: func(c *config.Config) { c.Scheduling.SpotSpreadMaxCost = 0.1 },
			invalid: []string{"-0.1", "NaN", "Inf", "3%"},
		},
		"spot-risk-table": {
			text: "m5.large=0.1, c5.large/eu-west-1a=0.2",
			want: func(c *config.Config) {
				c.Scheduling.SpotRisk = map[string]float64{"m5.large": 0.1, "c5.large/eu-west-1a": 0.2}
			},
			invalid: []string{"m5.large", "m5.large=2", "m5.large=-1", "=0.1", "m5.large/=0.1", "m5.large=NaN"},
		},
		"ignore-dra-requests": {text: "false", want: func(c *config.Config) { c.Scheduling.IgnoreDRARequests = false }, invalid: notBool},
		"nominate-pods":       {text: "false", want: func(c *config.Config) { c.Scheduling.NominatePods = false }, invalid: notBool},
		"scheduler-config": {
			text: "podTopologySpread:\n  defaultConstraints:\n    - maxSkew: 2\n      topologyKey: topology.kubernetes.io/zone\n      whenUnsatisfiable: DoNotSchedule\n",
			want: func(c *config.Config) {
				c.Scheduling.DefaultConstraints = []config.SpreadConstraint{
					{MaxSkew: 2, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "DoNotSchedule"},
				}
			},
			invalid: []string{"{", "text", "[]", "7", "podtopologyspread: {}"},
		},
		"consolidation-horizon": {text: "168h", want: func(c *config.Config) { c.Disruption.Horizon = 168 * time.Hour }, invalid: notPeriod},
		"consolidation-pod-cost": {
			text: "0.5", want: func(c *config.Config) { c.Disruption.PodCost = 0.5 },
			invalid: []string{"-0.1", "NaN", "Inf", "$1"},
		},
		"consolidation-min-saving": {
			text: "0.2", want: func(c *config.Config) { c.Disruption.MinSaving = 0.2 },
			invalid: []string{"-0.1", "NaN", "Inf", "10%"},
		},
		"consolidation-min-node-age": {
			text: "10m", want: func(c *config.Config) { c.Disruption.MinAge = 10 * time.Minute }, invalid: []string{"-1s", "10", "1d", "soon"},
		},
		"feature-gates": {
			text: "NodeRepair=true,ReservedCapacity=false,SpotToSpotConsolidation=true,NodeOverlay=false,StaticCapacity=true," +
				"CapacityBuffer=false,TerminateFirstDrift=true,TerminateFirstRepair=true,PodDeletionCostManagement=true",
			want: func(c *config.Config) {
				c.Gates = config.Gates{
					NodeRepair: true, SpotToSpotConsolidation: true, StaticCapacity: true,
					TerminateFirstDrift: true, TerminateFirstRepair: true, PodDeletionCostManagement: true,
				}
			},
			invalid: []string{"NodeRepair", "NodeRepair=yes", "=true", "NodeRepair=", "NodeRepair:true"},
		},
		"legacy-node-repair":   {text: "true", want: func(c *config.Config) { c.Compat.LegacyNodeRepair = true }, invalid: notBool},
		"strict-compatibility": {text: "true", want: func(c *config.Config) { c.Compat.Strict = true }, invalid: notBool},
		"cluster-name":         {text: "other", want: ofCloud(func(s *cloudSettings) { s.Cluster = "other" }), invalid: []string{" "}},
		"isolated":             {text: "true", want: ofCloud(func(s *cloudSettings) { s.Isolated = true }), invalid: notBool},
		"overhead":             {text: "0", want: ofCloud(func(s *cloudSettings) { s.Overhead = 0 }), invalid: []string{"-0.1", "NaN", "Inf", "+Inf", "1e999", "7%"}},
		"spare":                {text: "1", want: ofCloud(func(s *cloudSettings) { s.Spare = 1 }), invalid: []string{"-1", "one"}},
		"refresh":              {text: "5m", want: ofCloud(func(s *cloudSettings) { s.Refresh = 5 * time.Minute }), invalid: append([]string{"59s", "59.999s"}, notPeriod...)},
		"queue":                {text: "name:queue", want: ofCloud(func(s *cloudSettings) { s.Queue = "queue" }), invalid: []string{"queue"}},
		"cloud-gates":          {text: "Fast=true", want: ofCloud(func(s *cloudSettings) { s.Fast = true }), invalid: []string{"Fast=1"}},
	}
}

// load is one start.
func load(t interface{ Helper() }, args []string, env map[string]string) (config.Config, []string, error) {
	t.Helper()
	fs := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(fs, section)
	if err := fs.Parse(args); err != nil {
		return config.Config{}, nil, err
	}
	return loader.Load(func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
}

func TestEverySettingHasAnExample(t *testing.T) {
	t.Parallel()
	all := examples()
	for _, s := range config.Settings(section) {
		if _, found := all[s.Flag]; !found {
			t.Errorf("--%s has no example", s.Flag)
		}
		delete(all, s.Flag)
	}
	for flag := range all {
		t.Errorf("--%s is no setting", flag)
	}
}

// Every field of Config is the business of some setting: a field that no example changes has no setting.
func TestEveryFieldHasASetting(t *testing.T) {
	t.Parallel()
	changed := map[string]bool{}
	for _, ex := range examples() {
		c := defaults()
		ex.want(&c)
		diffLeaves("", reflect.ValueOf(defaults()), reflect.ValueOf(c), changed)
	}
	for path, ok := range changed {
		if !ok {
			t.Errorf("Config.%s is set by no setting", path)
		}
	}
}

// diffLeaves notes for every field that is not a struct whether it differs.
func diffLeaves(path string, a, b reflect.Value, changed map[string]bool) {
	if a.Kind() != reflect.Struct {
		changed[path] = changed[path] || !reflect.DeepEqual(a.Interface(), b.Interface())
		return
	}
	for i := range a.NumField() {
		diffLeaves(strings.TrimPrefix(path+"."+a.Type().Field(i).Name, "."), a.Field(i), b.Field(i), changed)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := load(t, []string{"--cluster-name=prod"}, nil)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("warnings %q, error %v", warnings, err)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestEverySetting(t *testing.T) {
	t.Parallel()
	all := examples()
	for _, s := range config.Settings(section) {
		ex := all[s.Flag]
		want := defaults()
		ex.want(&want)
		name := []string{"--cluster-name=prod"}
		flag := append(slices.Clone(name), "--"+s.Flag+"="+ex.text)
		wrong := "certainly wrong"
		for way, tc := range map[string]struct {
			args []string
			env  map[string]string
			want config.Config
		}{
			"flag":                       {args: flag, want: want},
			"flag, value apart":          {args: []string{"--" + s.Flag, ex.text, name[0]}, want: want},
			"environment":                {env: map[string]string{"CLUSTER_NAME": "prod", s.Env(): ex.text}, want: want},
			"flag wins over environment": {args: flag, env: map[string]string{s.Env(): wrong}, want: want},
			"empty variable":             {args: name, env: map[string]string{s.Env(): ""}, want: defaults()},
			"last flag counts":           {args: append([]string{"--" + s.Flag + "=" + wrong}, flag...), want: want},
		} {
			if way == "flag, value apart" && (s.Kind() == "bool" || s.Flag == "cluster-name") {
				continue // a bare boolean flag is true; the name is given already
			}
			t.Run(s.Flag+"/"+way, func(t *testing.T) {
				t.Parallel()
				got, _, err := load(t, tc.args, tc.env)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Config (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestEverySettingRefusesNonsense(t *testing.T) {
	t.Parallel()
	all := examples()
	for _, s := range config.Settings(section) {
		for _, text := range all[s.Flag].invalid {
			t.Run(s.Flag+"/"+text, func(t *testing.T) {
				t.Parallel()
				_, _, err := load(t, []string{"--cluster-name=prod", "--" + s.Flag + "=" + text}, nil)
				checkFault(t, err, s, "flag", text)
				env := map[string]string{"CLUSTER_NAME": "prod"}
				env[s.Env()] = text
				_, _, err = load(t, nil, env)
				checkFault(t, err, s, "environment", text)
			})
		}
	}
}

// Any subset of settings, each given by flag or by variable, in any order, gives the same Config.
func TestFlagAndEnvironmentAreEqual(t *testing.T) {
	t.Parallel()
	all := examples()
	flags := make([]string, 0, len(all))
	for _, s := range config.Settings(section) {
		flags = append(flags, s.Flag)
	}
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfDistinct(rapid.SampledFrom(flags), rapid.ID[string]).Draw(t, "settings")
		want := defaults()
		env := map[string]string{"CLUSTER_NAME": "prod"}
		var args []string
		for _, flag := range chosen {
			ex := all[flag]
			ex.want(&want)
			if rapid.Bool().Draw(t, "by flag: "+flag) {
				args = append(args, "--"+flag+"="+ex.text)
				continue
			}
			env[strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))] = ex.text
		}
		got, _, err := load(t, args, env)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Config (-want +got):\n%s", diff)
		}
	})
}
