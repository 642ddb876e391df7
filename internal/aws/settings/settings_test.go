package settings_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// load is a start with these flags for a cluster called prod.
func load(t *testing.T, args ...string) (settings.AWS, []string, error) {
	t.Helper()
	fs := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(fs, settings.Section)
	if err := fs.Parse(append([]string{"--cluster-name=prod"}, args...)); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := loader.Load(func(string) (string, bool) { return "", false })
	return settings.Of(c), warnings, err
}

// defaults are the settings of a start that names nothing but the cluster.
func defaults() settings.AWS {
	return settings.AWS{ClusterName: "prod", VMMemoryOverheadPercent: 0.075, AMIRefreshInterval: time.Minute, SubnetRefreshInterval: time.Minute}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := load(t)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %q, error %v", warnings, err)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(settings.AWS{}, settings.Of(config.Config{})); diff != "" {
		t.Errorf("nothing was loaded (-want +got):\n%s", diff)
	}
}

// Flags and variables are read alike, which tests of internal/config hold for any table.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	notBool := []string{"True", "1", "yes", "t", " true", "on"}
	notMinute := []string{"59s", "59.999s", "0", "0s", "-1s", "10", "1d", "soon", "1 s"}
	examples := map[string]struct {
		text    string
		want    func(*settings.AWS)
		invalid []string
	}{
		"cluster-name": {text: "other", want: func(s *settings.AWS) { s.ClusterName = "other" }, invalid: []string{"", " ", "\n"}},
		"cluster-endpoint": {
			text: "https://10.0.0.1:6443", want: func(s *settings.AWS) { s.ClusterEndpoint = "https://10.0.0.1:6443" },
			invalid: []string{"api.example.com", "localhost:6443", "/path", "https://", "https://:443", "http://[::1", "%zz"},
		},
		"cluster-ca-bundle": {text: "bm9uZQ==", want: func(s *settings.AWS) { s.ClusterCABundle = "bm9uZQ==" }},
		"eks-control-plane": {text: "true", want: func(s *settings.AWS) { s.EKSControlPlane = true }, invalid: notBool},
		"isolated-vpc":      {text: "true", want: func(s *settings.AWS) { s.IsolatedVPC = true }, invalid: notBool},
		"vm-memory-overhead-percent": {
			text: "0", want: func(s *settings.AWS) { s.VMMemoryOverheadPercent = 0 },
			invalid: []string{"-0.1", "NaN", "Inf", "+Inf", "1e999", "7%"},
		},
		"interruption-queue": {
			text: "queue", want: func(s *settings.AWS) { s.InterruptionQueue = "queue" }, invalid: []string{"a b", "a.b", ".fifo"},
		},
		"reserved-enis":           {text: "1", want: func(s *settings.AWS) { s.ReservedENIs = 1 }, invalid: []string{"-1", "one"}},
		"disable-dry-run":         {text: "true", want: func(s *settings.AWS) { s.DryRunDisabled = true }, invalid: notBool},
		"enable-zonal-shift":      {text: "true", want: func(s *settings.AWS) { s.ZonalShift = true }, invalid: notBool},
		"ami-refresh-interval":    {text: "5m", want: func(s *settings.AWS) { s.AMIRefreshInterval = 5 * time.Minute }, invalid: notMinute},
		"subnet-refresh-interval": {text: "60m", want: func(s *settings.AWS) { s.SubnetRefreshInterval = time.Hour }, invalid: notMinute},
		"aws-feature-gates": {
			text: "NodeClassCEL=true", want: func(s *settings.AWS) { s.Gates.NodeClassCEL = true }, invalid: []string{"NodeClassCEL=1"},
		},
	}
	table, _ := settings.Section()
	if len(table) != len(examples) {
		t.Errorf("%d settings, but %d examples", len(table), len(examples))
	}
	changed := settings.AWS{}
	for _, s := range table {
		ex, found := examples[s.Flag]
		if !found {
			t.Errorf("--%s has no example", s.Flag)
			continue
		}
		want := defaults()
		ex.want(&want)
		ex.want(&changed)
		got, _, err := load(t, "--"+s.Flag+"="+ex.text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("--%s=%s: error %v, settings (-want +got):\n%s", s.Flag, ex.text, err, diff)
		}
		for _, text := range ex.invalid {
			if _, _, err := load(t, "--"+s.Flag+"="+text); err == nil || !strings.Contains(err.Error(), "--"+s.Flag+", "+s.Env()) {
				t.Errorf("--%s=%q: error %v, want one that names the setting", s.Flag, text, err)
			}
		}
	}
	changed.VMMemoryOverheadPercent = 1 // its example is zero
	for i, v := 0, reflect.ValueOf(changed); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is set by no setting", v.Type().Field(i).Name)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flag string
		want string // of the only warning; empty means none
	}{
		"an unknown gate":                  {flag: "--aws-feature-gates=NodeRepair=true", want: "--aws-feature-gates, AWS_FEATURE_GATES"},
		"percent that is meant as percent": {flag: "--vm-memory-overhead-percent=7.5", want: "0.075"},
		"a bundle that is not base64":      {flag: "--cluster-ca-bundle=-----BEGIN CERTIFICATE-----", want: "not base64"},
		"a bundle with line breaks":        {flag: "--cluster-ca-bundle=bm9u\nZQ==\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, warnings, err := load(t, tc.flag)
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) > 1 || (len(warnings) == 1) != (tc.want != "") || !strings.Contains(strings.Join(warnings, ""), tc.want) {
				t.Errorf("warnings %q, want %q", warnings, tc.want)
			}
		})
	}
}

func TestQueueIsReducedToItsName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text    string
		want    string
		refused bool
	}{
		"name":                        {text: "Karpenter-prod_1", want: "Karpenter-prod_1"},
		"FIFO":                        {text: "prod.fifo", want: "prod.fifo"},
		"ARN":                         {text: "arn:aws:sqs:eu-west-1:123456789012:prod", want: "prod"},
		"ARN of another partition":    {text: "arn:aws-cn:sqs:cn-north-1:123456789012:prod", want: "prod"},
		"URL":                         {text: "https://sqs.eu-west-1.amazonaws.com/123456789012/prod", want: "prod"},
		"URL with a slash at the end": {text: "https://sqs.eu-west-1.amazonaws.com/123456789012/prod/", want: "prod"},
		"URL of an emulator":          {text: "http://127.0.0.1:4566/000000000000/prod", want: "prod"},
		"the longest name":            {text: strings.Repeat("q", 80), want: strings.Repeat("q", 80)},
		"a name too long":             {text: strings.Repeat("q", 81), refused: true},
		"ARN of a topic":              {text: "arn:aws:sns:eu-west-1:123456789012:prod", refused: true},
		"ARN cut short":               {text: "arn:aws:sqs:eu-west-1:123456789012", refused: true},
		"ARN without a name":          {text: "arn:aws:sqs:eu-west-1:123456789012:", refused: true},
		"URL without a path":          {text: "https://sqs.eu-west-1.amazonaws.com", refused: true},
		"URL without a host":          {text: "https:///123456789012/prod", refused: true},
		"URL that does not parse":     {text: "https://[::1/prod", refused: true},
		"letters of another script":   {text: "очередь", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := load(t, "--interruption-queue="+tc.text)
			if (err != nil) != tc.refused || got.InterruptionQueue != tc.want {
				t.Errorf("queue %q, error %v; want %q, refused %v", got.InterruptionQueue, err, tc.want, tc.refused)
			}
		})
	}
}
