package observe

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/dashboard"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// unreachable are metrics without which a query is empty here, and why they cannot be brought about. The tests of the rules
// (observability/rules/tests) have series of them.
var unreachable = map[string]string{
	"dovetail_scheduler_rejected_plans_total": "only a defect of the planner makes a plan that breaks a rule, and there is none to use",
}

// query is something for Prometheus, as it is written and as it is sent here.
type query struct {
	where  string
	expr   string
	legend string
}

// Every query of every panel and every rule returns data from a scrape of a running controller, and what a legend names is
// a label of it. Alerts are silent while all is well, so that they are queried without their threshold.
func TestEveryQueryReturnsData(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus in PATH; Debian's package prometheus has it, and .ci/run installs it")
	}
	l := start(t, program)
	p := l.prometheus
	t.Run("life", func(t *testing.T) {
		for _, a := range liveSteps() {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.run(l.forTest(t))
			})
		}
	})
	if t.Failed() {
		t.Fatal("not everything happened that is queried")
	}
	rules := ruleQueries(t, p)
	t.Run("panels", func(t *testing.T) { check(t, p, panelQueries()) })
	t.Run("variables", func(t *testing.T) { check(t, p, variableQueries()) })
	t.Run("rules", func(t *testing.T) { check(t, p, rules) })
	t.Run("conditions", func(t *testing.T) { checkConditions(t, p) })
}

// panelQueries are the queries of the dashboards, with what a reader chooses left at All.
func panelQueries() []query {
	var all []query
	for _, board := range dashboard.Boards() {
		for _, row := range board.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					all = append(all, query{fmt.Sprintf("%s / %s / %s", board.Title, row.Title, p.Title), chosen.Replace(q.Expr), q.Legend})
				}
			}
		}
	}
	return all
}

// chosen stands for what Grafana puts in place of variables.
var chosen = strings.NewReplacer("$nodepool", ".+", "$job", ".+", "$__rate_interval", "1m")

// variableQueries are what the choices of the dashboards are read from.
func variableQueries() []query {
	var all []query
	for _, v := range dashboard.Variables() {
		if metric, label, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v, "label_values("), ")"), ", "); found {
			all = append(all, query{"variable " + v, "count by (" + label + ") (" + metric + ")", "{{" + label + "}}"})
		}
	}
	return all
}

// ruleQueries are the expressions of the rules that the server evaluates. It must have evaluated each without an error.
func ruleQueries(t *testing.T, p *prometheus) []query {
	t.Helper()
	var rules []rule
	waitUntil(t, "all rules were evaluated", func() (bool, string) {
		var err error
		if rules, err = p.evaluatedRules(); err != nil {
			return false, err.Error()
		}
		for _, r := range rules {
			if r.Health != "ok" {
				return false, fmt.Sprintf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
		return len(rules) > 20, fmt.Sprintf("%d rules", len(rules))
	})
	var all []query
	for _, r := range rules {
		if r.Type == "recording" {
			all = append(all, query{"rule " + r.Name, r.Query, ""}, query{"recorded " + r.Name, r.Name, ""})
			continue
		}
		for part := range strings.SplitSeq(r.Query, " or ") {
			all = append(all, query{"alert " + r.Name, withoutThreshold(part), ""})
		}
	}
	return all
}

var threshold = regexp.MustCompile(`\s*(==|!=|>=|<=|>|<)\s*[0-9.]+(\s*\*\s*[0-9.]+)?$`)

// withoutThreshold is what an alert compares.
func withoutThreshold(expr string) string {
	expr = threshold.ReplaceAllString(expr, "")
	if inner, cut := strings.CutPrefix(expr, "absent("); cut {
		return strings.TrimSuffix(inner, ")")
	}
	return expr
}

// check runs all queries until each returns data.
func check(t *testing.T, p *prometheus, queries []query) {
	t.Helper()
	if len(queries) == 0 {
		t.Fatal("nothing to query")
	}
	left := slices.Clone(queries)
	waitUntil(t, "every query returns data", func() (bool, string) {
		var missing strings.Builder
		left = slices.DeleteFunc(left, func(q query) bool {
			why := q.whatIsWrong(p)
			if why != "" {
				fmt.Fprintf(&missing, "\n%s: %s\n\t%s", q.where, q.expr, why)
			}
			return why == ""
		})
		return len(left) == 0, missing.String()
	})
}

var (
	selector = regexp.MustCompile(`(?:^|[^\w:])((?:karpenter|dovetail|operator|aws_sdk_go|client_go|controller_runtime|workqueue|leader_election|process|go)_[a-z0-9_]+)(\{[^}]*\})?`)
	braces   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	fallback = regexp.MustCompile(` or vector\(0\)$`)
)

// whatIsWrong says what is wrong with what a query returns; empty if nothing is.
func (q query) whatIsWrong(p *prometheus) string {
	needs := fallback.ReplaceAllString(q.expr, "") // a graph at 0 says nothing of the query
	for _, found := range selector.FindAllStringSubmatch(needs, -1) {
		if unreachable[found[1]] != "" {
			return ""
		}
		data, err := p.queryRange(found[1] + found[2])
		if err != nil || len(data) == 0 {
			return fmt.Sprintf("%s%s has no series (%v)", found[1], found[2], err)
		}
	}
	data, err := p.queryRange(needs)
	if err != nil {
		return err.Error()
	}
	if len(data) == 0 {
		return "no data"
	}
	for _, name := range braces.FindAllStringSubmatch(q.legend, -1) {
		if !slices.ContainsFunc(data, func(s series) bool { return s.Metric[name[1]] != "" }) {
			return fmt.Sprintf("no series has the label %s of the legend %s", name[1], q.legend)
		}
	}
	for _, s := range data {
		if slices.ContainsFunc(s.Values, func(v [2]any) bool { return v[1] != "NaN" }) {
			return ""
		}
	}
	return "only NaN"
}

// checkConditions finds every condition that was on an object in the reference.
func checkConditions(t *testing.T, p *prometheus) {
	t.Helper()
	seen := 0
	for _, kind := range []string{"NodePool", "EC2NodeClass", "NodeClaim"} {
		data, err := p.queryRange("operator_" + strings.ToLower(kind) + "_status_condition_count")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range data {
			seen++
			if !isDocumented(kind, s.Metric) {
				t.Errorf("%s %s is %s with reason %s, which docs/reference/conditions.md does not list", kind, s.Metric["type"], s.Metric["status"], s.Metric["reason"])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d conditions were seen", seen)
	}
}

func isDocumented(kind string, state map[string]string) bool {
	return slices.ContainsFunc(condition.Docs(drivers.Driver().ConditionDocs()), func(d condition.Doc) bool {
		return d.Kind == kind && (d.Type == state["type"] || d.Type == "*any*") && string(d.Status) == state["status"] &&
			(d.Reason == state["reason"] || strings.HasPrefix(d.Reason, "*"))
	})
}
