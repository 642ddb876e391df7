package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// checkFault wants at least one fault, all of one setting, with everything a user needs.
func checkFault(t *testing.T, err error, s config.Setting, from, text string) {
	t.Helper()
	invalid, ok := errors.AsType[*config.Error](err)
	if !ok || len(invalid.Faults) == 0 {
		t.Fatalf("error %v, want faults", err)
	}
	for _, fault := range invalid.Faults {
		if fault.Flag != s.Flag || fault.Env != s.Env() || fault.From != from || fault.Want == "" {
			t.Errorf("fault %+v, want one of --%s from %s", fault, s.Flag, from)
		}
		if s.Kind() != "yaml" && s.Kind() != "gates" && fault.Value != text {
			t.Errorf("fault names %q, want %q", fault.Value, text)
		}
		for _, part := range []string{"--" + s.Flag, s.Env(), from, fault.Want} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	}
	if lines := strings.Count(err.Error(), "\n"); lines != len(invalid.Faults) {
		t.Errorf("%d lines for %d faults:\n%v", lines, len(invalid.Faults), err)
	}
}

func TestOneErrorListsAllFaults(t *testing.T) {
	t.Parallel()
	args := []string{
		"--metrics-port=70000", "--leader-election-retry-period=9s", "--preference-policy=", "--feature-gates=NodeRepair=on,Drift=true,x",
		"--enable-profiling=yes", "--batch-idle-duration=1m",
	}
	env := map[string]string{
		"METRICS_PORT": "8080", "LOG_LEVEL": "trace", "REFRESH": "30s",
		"SCHEDULER_CONFIG": "podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Never}]}",
	}
	const want = `invalid settings:
  --metrics-port, METRICS_PORT: "70000" (flag) is not allowed; want a port from 1 to 65535, or 0 for any free one
  --enable-profiling, ENABLE_PROFILING: "yes" (flag) is not allowed; want true or false
  --log-level, LOG_LEVEL: "trace" (environment) is not allowed; want debug, info or error
  --preference-policy, PREFERENCE_POLICY: "" (flag) is not allowed; want Respect or Ignore
  --scheduler-config, SCHEDULER_CONFIG: "podTopologySpread.defaultConstraints[0].maxSkew: 0" (environment) is not allowed; want a whole number of 1 or more
  --scheduler-config, SCHEDULER_CONFIG: "podTopologySpread.defaultConstraints[0].whenUnsatisfiable: \"Never\"" (environment) is not allowed; want DoNotSchedule or ScheduleAnyway
  --feature-gates, FEATURE_GATES: "NodeRepair=on" (flag) is not allowed; want NodeRepair=true or NodeRepair=false
  --feature-gates, FEATURE_GATES: "x" (flag) is not allowed; want a comma list of name=true and name=false
  --cluster-name, CLUSTER_NAME: not given; want the name of the cluster
  --refresh, REFRESH: "30s" (environment) is not allowed; want a duration of 1m or more
  --leader-election-retry-period, LEADER_ELECTION_RETRY_PERIOD: "9s" (flag) is not allowed; want less than 5/6 of --leader-election-renew-deadline, which is 10s
  --batch-idle-duration, BATCH_IDLE_DURATION: "1m" (flag) is not allowed; want at most --batch-max-duration, which is 10s`
	got, warnings, err := load(t, args, env)
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Config{}, got); diff != "" {
		t.Errorf("a Config came with the error:\n%s", diff)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `"Drift"`) {
		t.Errorf("warnings %q, want one about Drift", warnings)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args     []string
		change   func(*config.Config)
		wantFlag string // of the only fault
		wantText string
	}{
		"a bare boolean flag is true": {
			args: []string{"--isolated"}, change: ofCloud(func(s *cloudSettings) { s.Isolated = true }),
		},
		"a boolean flag may say false": {args: []string{"--isolated=false"}},
		"a boolean flag may not be empty": {
			args: []string{"--isolated="}, wantFlag: "isolated", wantText: "true or false",
		},
		"the name of the cluster may not be empty": {
			args: []string{"--cluster-name="}, wantFlag: "cluster-name", wantText: "name of the cluster",
		},
		"an empty log level is info": {args: []string{"--log-level="}},
		"zero CPU is one core":       {args: []string{"--cpu-requests=0"}},
		"negative CPU is one core":   {args: []string{"--cpu-requests=-5"}},
		"no gates are the defaults":  {args: []string{"--feature-gates="}},
		"no lease name":              {args: []string{"--leader-election-name="}, wantFlag: "leader-election-name", wantText: "a name"},
		"both ports may be free": {
			args:   []string{"--metrics-port=0", "--health-probe-port=0"},
			change: func(c *config.Config) { c.Server.MetricsPort, c.Server.HealthProbePort = 0, 0 },
		},
		"two servers cannot share a port": {
			args: []string{"--health-probe-port=8080"}, wantFlag: "health-probe-port", wantText: "other than --metrics-port, which is 8080",
		},
		"a faulty port is reported once": {
			args: []string{"--health-probe-port=-1", "--metrics-port=0"}, wantFlag: "health-probe-port", wantText: "from 1 to 65535",
		},
		"idle may equal max": {
			args: []string{"--batch-idle-duration=10s"}, change: func(c *config.Config) { c.Batch.Idle = 10 * time.Second },
		},
		"idle above max": {
			args: []string{"--batch-max-duration=500ms"}, wantFlag: "batch-idle-duration", wantText: "at most --batch-max-duration, which is 500ms",
		},
		"renew may not equal lease": {
			args: []string{"--leader-election-lease-duration=10s"}, wantFlag: "leader-election-renew-deadline", wantText: "which is 10s",
		},
		"retry without room for jitter": {
			args: []string{"--leader-election-renew-deadline=12s", "--leader-election-retry-period=10s"}, wantFlag: "leader-election-retry-period",
			wantText: "5/6",
		},
		"retry with just enough room": {
			args: []string{"--leader-election-renew-deadline=12001ms", "--leader-election-retry-period=10s"},
			change: func(c *config.Config) {
				c.Leader.RenewDeadline, c.Leader.RetryPeriod = 12001*time.Millisecond, 10*time.Second
			},
		},
		"retry longer than anything": {
			args: []string{"--leader-election-retry-period=2562047h"}, wantFlag: "leader-election-retry-period", wantText: "5/6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := load(t, append([]string{"--cluster-name=prod"}, tc.args...), nil)
			if tc.wantFlag != "" {
				invalid, ok := errors.AsType[*config.Error](err)
				if !ok || len(invalid.Faults) != 1 || invalid.Faults[0].Flag != tc.wantFlag || !strings.Contains(invalid.Faults[0].Want, tc.wantText) {
					t.Errorf("error %v, want one of --%s about %q", err, tc.wantFlag, tc.wantText)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			if tc.change != nil {
				tc.change(&want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string // of the only warning; empty means none
	}{
		"V15-02 legacy repair without the gate": {args: []string{"--legacy-node-repair"}, want: "without gate NodeRepair"},
		"V15-02 legacy repair with the gate":    {args: []string{"--legacy-node-repair", "--feature-gates=NodeRepair=true"}},
		"V15-01 terminate first without repair": {args: []string{"--feature-gates=TerminateFirstRepair=true"}, want: "does nothing without gate NodeRepair"},
		"V15-01 terminate first with repair":    {args: []string{"--feature-gates=TerminateFirstRepair=true,NodeRepair=true"}},
		"WP-01 a page without data":             {args: []string{"--serve-console", "--serve-decisions=false"}, want: "the page shows nothing"},
		"a gate that works":                     {args: []string{"--feature-gates=ReservedCapacity=false,PodDeletionCostManagement=true"}},
		"a retired gate":                        {args: []string{"--feature-gates=Drift=true"}, want: `unknown gate "Drift" is ignored`},
		"a retired gate with any value":         {args: []string{"--feature-gates=Drift=maybe"}, want: `unknown gate "Drift" is ignored`},
		"a gate spelt as in the chart":          {args: []string{"--feature-gates=nodeRepair=true"}, want: `did you mean "NodeRepair"?`},
		"Trust C05: a mistyped gate":            {args: []string{"--feature-gates=NodeRepai=true"}, want: `unknown gate "NodeRepai" is ignored; did you mean "NodeRepair"?`},
		"a gate named twice":                    {args: []string{"--feature-gates=NodeOverlay=true,NodeOverlay=false"}, want: "named twice"},
		"an unknown gate of the cloud":          {args: []string{"--cloud-gates=NodeRepair=true"}, want: "--cloud-gates, CLOUD_GATES"},
		"percent that is meant as percent":      {args: []string{"--overhead=7.5"}, want: "0.075"},
		"a spot share meant as percent":         {args: []string{"--spot-pool-share=25"}, want: "bounds nothing; a quarter is 0.25"},
		"a cost of spreading meant as percent":  {args: []string{"--spot-spread-max-cost=3"}, want: "twice as much; 3 % is 0.03"},
		"a spot share of nothing":               {args: []string{"--spot-pool-share=0"}},
		"a saving meant as percent":             {args: []string{"--consolidation-min-saving=20"}, want: "none is ever made; a fifth is 0.2"},
		"a saving of the whole price":           {args: []string{"--consolidation-min-saving=1"}, want: "none is ever made"},
		"almost the whole price":                {args: []string{"--consolidation-min-saving=0.99"}},
		"any saving":                            {args: []string{"--consolidation-min-saving=0"}},
		"a horizon of seconds, not hours":       {args: []string{"--consolidation-horizon=24s"}, want: "which is 24s"},
		"a horizon of seconds, and free moves":  {args: []string{"--consolidation-horizon=1s", "--consolidation-pod-cost=0"}},
		"a horizon that pays for a pod":         {args: []string{"--consolidation-horizon=36s"}},
		"a pod that costs a fortune":            {args: []string{"--consolidation-pod-cost=25"}, want: "which is 24h0m0s"},
		"an expensive pod":                      {args: []string{"--consolidation-pod-cost=24"}},
		"nodes of any age":                      {args: []string{"--consolidation-min-node-age=0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, warnings, err := load(t, append([]string{"--cluster-name=prod"}, tc.args...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) > 1 || (len(warnings) == 1) != (tc.want != "") || !strings.Contains(strings.Join(warnings, ""), tc.want) {
				t.Errorf("warnings %q, want %q", warnings, tc.want)
			}
		})
	}
}

func TestLongValuesAreCut(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, []string{"--cluster-name=prod", "--log-level=" + strings.Repeat("ä", 5000)}, nil)
	if err == nil || len(err.Error()) > 500 || !strings.Contains(err.Error(), `ä"...`) {
		t.Errorf("error %v", err)
	}
}

func TestHelpNamesFlagVariableAndDefault(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	config.Bind(fs, section)
	help := fs.FlagUsages()
	for _, s := range config.Settings(section) {
		line := ""
		for candidate := range strings.Lines(help) {
			if strings.HasPrefix(strings.TrimSpace(candidate), "--"+s.Flag+" ") {
				line = candidate
			}
		}
		if !strings.Contains(line, s.Usage) || !strings.Contains(line, "[$"+s.Env()+"]") {
			t.Errorf("--%s has the help line %q", s.Flag, line)
		}
		zero := s.Default == "" || s.Default == "0" || s.Default == "false"
		if strings.Contains(line, "(default ") == zero {
			t.Errorf("--%s with default %q has the help line %q", s.Flag, s.Default, line)
		}
	}
}
