package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/containers"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// job is what Prometheus calls the controller, and pod the label that it gets from a ServiceMonitor.
const (
	job = "karpenter"
	pod = "karpenter-0"
)

// step is how far samples of a range are apart.
const step = 5 * time.Second

// prometheus is a server that scrapes the controller and evaluates our rules.
type prometheus struct {
	address string
	began   time.Time
}

// startPrometheus runs a server until the test ends.
func startPrometheus(t *testing.T, program string, target int) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("../../observability/rules")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 2s, evaluation_interval: 5s}
rule_files: [%[1]s/alerts.yaml, %[1]s/recording.yaml]
scrape_configs:
- job_name: %[2]s
  static_configs: [{targets: ["127.0.0.1:%[3]d"], labels: {pod: %[4]s}}]
`, rules, job, target, pod)
	path := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := harness.LastingPort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &prometheus{address: fmt.Sprintf("127.0.0.1:%d", port), began: time.Now()}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program,
		"--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	containers.EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its code says nothing that matters here
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus:\n%s", text)
		}
		_ = log.Close()
	})
	waitUntil(t, "Prometheus is ready", func() (bool, string) {
		_, err := p.get("/-/ready", nil)
		return err == nil, fmt.Sprint(err)
	})
	return p
}

// get requests a page.
func (p *prometheus) get(path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}

// series is one line of a graph.
type series struct {
	Metric map[string]string
	Values [][2]any
}

// queryRange evaluates an expression over all the time since the start, as a panel does.
func (p *prometheus) queryRange(expr string) ([]series, error) {
	now := time.Now()
	text, err := p.get("/api/v1/query_range", url.Values{
		"query": {expr}, "start": {unixSeconds(p.began)}, "end": {unixSeconds(now)}, "step": {unixSeconds(time.Unix(0, 0).Add(step))},
	})
	if err != nil {
		return nil, err
	}
	var body struct{ Data struct{ Result []series } }
	err = json.Unmarshal(text, &body)
	return body.Data.Result, err
}

// latestValue is the last value of an expression that has one series; 0 if there is none.
func (p *prometheus) latestValue(expr string) float64 {
	data, err := p.queryRange(expr)
	if err != nil || len(data) != 1 {
		return 0
	}
	text, _ := data[0].Values[len(data[0].Values)-1][1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return value
}

func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// rule is what the server says of a rule.
type rule struct {
	Name      string
	Health    string
	LastError string
	State     string // of an alert
	Type      string
	Query     string
}

// evaluatedRules are those that the server evaluates.
func (p *prometheus) evaluatedRules() ([]rule, error) {
	text, err := p.get("/api/v1/rules", nil)
	if err != nil {
		return nil, err
	}
	var body struct {
		Data struct{ Groups []struct{ Rules []rule } }
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	var all []rule
	for _, group := range body.Data.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}
