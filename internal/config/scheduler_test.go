package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// inList wraps constraints in flow style.
func inList(items ...string) string {
	return "podTopologySpread: {defaultConstraints: [" + strings.Join(items, ", ") + "]}"
}

const (
	zoneHard = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}"
	zoneSoft = "{maxSkew: 3, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"
	hostSoft = "{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}"
)

// FM M18: without a text there are no constraints for all pods, which is the default.
func TestSC_37_SchedulerConfig(t *testing.T) {
	t.Parallel()
	three := int32(3)
	hard := config.SpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule"}
	soft := config.SpreadConstraint{MaxSkew: 3, TopologyKey: "zone", WhenUnsatisfiable: "ScheduleAnyway"}
	host := config.SpreadConstraint{MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "ScheduleAnyway"}
	full := config.SpreadConstraint{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule", MinDomains: &three,
		NodeAffinityPolicy: "Honor", NodeTaintsPolicy: "Ignore",
	}
	for name, tc := range map[string]struct {
		text string
		want []config.SpreadConstraint
	}{
		"nothing":              {text: ""},
		"blank":                {text: " \n"},
		"a comment":            {text: "# later\n"},
		"null":                 {text: "null"},
		"an empty object":      {text: "{}"},
		"null spread":          {text: "podTopologySpread:"},
		"null list":            {text: "podTopologySpread: {defaultConstraints: null}"},
		"an empty list":        {text: inList()},
		"two actions, one key": {text: inList(zoneHard, zoneSoft), want: []config.SpreadConstraint{hard, soft}},
		"one action, two keys": {text: inList(zoneSoft, hostSoft), want: []config.SpreadConstraint{soft, host}},
		"JSON": {
			text: `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}}`,
			want: []config.SpreadConstraint{hard},
		},
		"markers around one document": {text: "# c\n---\n" + inList(zoneHard) + "\n...\n---\n# end\n", want: []config.SpreadConstraint{hard}},
		"everything": {
			text: inList("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore}"),
			want: []config.SpreadConstraint{full},
		},
		"optional fields that are null": {
			text: inList("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: null, nodeAffinityPolicy: null, nodeTaintsPolicy: null}"),
			want: []config.SpreadConstraint{hard},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := load(t, []string{"--cluster-name=prod", "--scheduler-config=" + tc.text}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Scheduling.DefaultConstraints); diff != "" {
				t.Errorf("constraints (-want +got):\n%s", diff)
			}
		})
	}
}

// FM M18: the controller does not start with a text that it cannot read, and says what is wrong with it.
func TestSC_37_SchedulerConfigIsStrict(t *testing.T) {
	t.Parallel()
	with := func(field string) string {
		return inList("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, " + field + "}")
	}
	const item = "podTopologySpread.defaultConstraints[0]"
	for name, tc := range map[string]struct {
		text string
		want []string // one per fault: what the line holds
	}{
		"a scalar":                     {text: "7", want: []string{"an object"}},
		"broken YAML":                  {text: "{", want: []string{"YAML or JSON (yaml:"}},
		"several documents":            {text: inList(zoneHard) + "\n---\n" + inList(zoneSoft), want: []string{"there are several"}},
		"several documents, one line":  {text: "--- {}\n--- {}", want: []string{"there are several"}},
		"content after the end":        {text: "{}\n...\n{}", want: []string{"there are several"}},
		"a repeated field":             {text: "podTopologySpread: {}\npodTopologySpread: {}", want: []string{"already set"}},
		"an unknown field at the root": {text: "profiles: []", want: []string{`"profiles"`}},
		"an unknown field of spread":   {text: "podTopologySpread: {defaultingType: List}", want: []string{`"podTopologySpread.defaultingType"`}},
		"wrong capitals":               {text: "podTopologySpread: {DefaultConstraints: []}", want: []string{`"podTopologySpread.DefaultConstraints"`}},
		"spread is a list":             {text: "podTopologySpread: []", want: []string{"podTopologySpread: []"}},
		"constraints are an object":    {text: "podTopologySpread: {defaultConstraints: {}}", want: []string{"a list"}},
		"a constraint is a text":       {text: inList("zone"), want: []string{item + `: \"zone\"`}},
		"a selector":                   {text: with("labelSelector: {}"), want: []string{item + ".labelSelector"}},
		"label keys to match":          {text: with("matchLabelKeys: [a]"), want: []string{item + ".matchLabelKeys"}},
		"nothing in a constraint":      {text: inList("{}"), want: []string{".maxSkew: null", ".topologyKey: null", ".whenUnsatisfiable: null"}},
		"a null constraint":            {text: inList("null"), want: []string{".maxSkew: null", ".topologyKey: null", ".whenUnsatisfiable: null"}},
		"skew zero":                    {text: strings.Replace(inList(zoneHard), "1", "0", 1), want: []string{".maxSkew: 0"}},
		"skew negative":                {text: strings.Replace(inList(zoneHard), "1", "-1", 1), want: []string{".maxSkew: -1"}},
		"skew with a fraction":         {text: strings.Replace(inList(zoneHard), "1", "1.5", 1), want: []string{".maxSkew: 1.5"}},
		"skew as text":                 {text: strings.Replace(inList(zoneHard), "1", "'1'", 1), want: []string{`.maxSkew: \"1\"`}},
		"skew beyond 32 bits":          {text: strings.Replace(inList(zoneHard), "1", "2147483648", 1), want: []string{".maxSkew: 2147483648"}},
		"a key that is no label":       {text: strings.Replace(inList(zoneHard), "zone", "a b", 1), want: []string{`.topologyKey: \"a b\"`}},
		"an empty key":                 {text: strings.Replace(inList(zoneHard), "zone", "''", 1), want: []string{`.topologyKey: \"\"`}},
		"another action":               {text: strings.Replace(inList(zoneHard), "DoNotSchedule", "Stop", 1), want: []string{"DoNotSchedule or ScheduleAnyway"}},
		"a repeated constraint":        {text: inList(zoneHard, zoneSoft, zoneHard), want: []string{"defaultConstraints[2]"}},
		"no domains":                   {text: with("minDomains: 0"), want: []string{".minDomains: 0"}},
		"domains that are only wished": {text: strings.Replace(inList(zoneSoft), "}", ", minDomains: 2}", 1), want: []string{"no minDomains with ScheduleAnyway"}},
		"an unknown affinity policy":   {text: with("nodeAffinityPolicy: honor"), want: []string{"Honor or Ignore"}},
		"an unknown taints policy":     {text: with("nodeTaintsPolicy: 1"), want: []string{"Honor or Ignore"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := load(t, []string{"--cluster-name=prod", "--scheduler-config=" + tc.text}, nil)
			onlyFaultsOf(t, err, "scheduler-config")
			lines := strings.Split(err.Error(), "\n")[1:]
			if len(lines) != len(tc.want) {
				t.Fatalf("%d faults, want %d: %v", len(lines), len(tc.want), err)
			}
			for i, want := range tc.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("fault %q, want one about %q", lines[i], want)
				}
			}
		})
	}
}

// FuzzSchedulerConfig: any text is valid constraints or faults of this one setting.
func FuzzSchedulerConfig(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", "[]", "{", "---\n---\n", "a: &a [*a]", "? {}\n: {}", "\xff", "podTopologySpread: {defaultConstraints: [null]}",
		inList(zoneHard, zoneSoft, hostSoft), inList("{maxSkew: .nan}"), inList("{maxSkew: 1e99, minDomains: 1}"), "podTopologySpread:\n  <<: 1\n",
		`{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := load(t, []string{"--cluster-name=prod", "--scheduler-config=" + text}, nil)
		if err != nil {
			onlyFaultsOf(t, err, "scheduler-config")
			return
		}
		seen := map[string]bool{}
		for _, s := range got.Scheduling.DefaultConstraints {
			id := s.TopologyKey + " " + s.WhenUnsatisfiable
			if s.MaxSkew < 1 || len(validation.IsQualifiedName(s.TopologyKey)) > 0 || seen[id] ||
				(s.WhenUnsatisfiable != "DoNotSchedule" && s.WhenUnsatisfiable != "ScheduleAnyway") ||
				(s.MinDomains != nil && *s.MinDomains < 1) {
				t.Errorf("%q gave %+v", text, got.Scheduling.DefaultConstraints)
			}
			seen[id] = true
		}
	})
}
