package dashboard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/dashboard"
	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const root = "../../observability"

// panel is what a panel of a file needs to have.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
	}
	Targets []struct {
		RefID          string
		Expr           string
		Instant, Range bool
		Datasource     struct{ Type, UID string }
	}
}

// variable is something that a reader chooses at the top of a dashboard.
type variable struct {
	Name, Label, Type, Query string
	Datasource               struct{ Type, UID string }
	Refresh                  int
	IncludeAll               bool
	AllValue                 string
}

// grafana10 is the first version of the model of dashboards that Grafana 10 writes. Older ones are migrated when they are
// loaded, which may change them.
const grafana10 = 38

// units are those that Grafana knows, of the ones that are used.
var units = []string{"none", "s", "bytes", "percent", "percentunit", "currencyUSD", "ops", "reqps"}

// The files that users import: what Grafana needs, nothing drawn over something else, and a meaning for each panel.
func TestFiles(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(root, "dashboards", "*.json"))
	if err != nil || len(names) != len(dashboard.Boards()) {
		t.Fatalf("%d files (%v), want one for each of %d dashboards; run: make generate", len(names), err, len(dashboard.Boards()))
	}
	uids := map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			ID                      *int
			UID, Title, Description string
			SchemaVersion           int
			Time                    struct{ From, To string }
			Templating              struct{ List []variable }
			Panels                  []panel
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if file.UID == "" || len(file.UID) > 40 || uids[file.UID] || file.ID != nil || file.SchemaVersion < grafana10 || file.Time.From == "" {
			t.Errorf("%s: uid %q, id %v, schema %d, time %v", name, file.UID, file.ID, file.SchemaVersion, file.Time)
		}
		uids[file.UID] = true
		checkText(t, name, strings.TrimPrefix(file.Title, "Dovetail / "), file.Description)
		checkVariables(t, name, string(text), file.Templating.List)
		checkPanels(t, name, file.Panels)
	}
}

// checkText wants a headline and sentences.
func checkText(t *testing.T, where, title, description string) {
	t.Helper()
	if title == "" || strings.HasSuffix(title, ".") || strings.ToUpper(title[:1]) != title[:1] {
		t.Errorf("%s: title %q", where, title)
	}
	if !strings.HasSuffix(description, ".") || strings.ToUpper(description[:1]) != description[:1] && !strings.HasPrefix(description, "docs/") {
		t.Errorf("%s: the description of %q is no sentence: %q", where, title, description)
	}
}

// checkVariables wants a choice of the data source first, and a definition of whatever queries use.
func checkVariables(t *testing.T, name, text string, list []variable) {
	t.Helper()
	if len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" || list[0].Query != "prometheus" {
		t.Fatalf("%s: the first variable chooses no data source", name)
	}
	known := map[string]bool{"__rate_interval": true} // of Grafana itself
	for i, v := range list {
		known[v.Name] = true
		if v.Label == "" || i > 0 && (v.Type != "query" || v.Datasource.UID != "${datasource}" || v.Refresh == 0 || !v.IncludeAll || v.AllValue == "") {
			t.Errorf("%s: variable %+v", name, v)
		}
	}
	for _, used := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		if !known[used[1]] {
			t.Errorf("%s: variable %s is defined nowhere", name, used[0])
		}
	}
}

func checkPanels(t *testing.T, name string, panels []panel) {
	t.Helper()
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range panels {
		if p.ID == 0 || ids[p.ID] || titles[p.Type+p.Title] {
			t.Errorf("%s: panel %d %q: an id and a title of its own are needed", name, p.ID, p.Title)
		}
		ids[p.ID], titles[p.Type+p.Title] = true, true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if x >= 24 || taken[[2]int{x, y}] != "" {
					t.Fatalf("%s: %q lies on %q, or beside the grid", name, p.Title, taken[[2]int{x, y}])
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		switch p.Type {
		case "row":
		case "stat", "timeseries":
			checkText(t, name, p.Title, p.Description)
			checkPanel(t, name, p)
		default:
			t.Errorf("%s: %q is a panel of type %q", name, p.Title, p.Type)
		}
	}
}

func checkPanel(t *testing.T, name string, p panel) {
	t.Helper()
	if !slices.Contains(units, p.FieldConfig.Defaults.Unit) || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
		t.Errorf("%s: %q lacks a unit, the chosen data source or a query", name, p.Title)
	}
	thresholds := p.FieldConfig.Defaults.Thresholds
	if thresholds.Mode != "absolute" || len(thresholds.Steps) == 0 {
		t.Fatalf("%s: %q has no thresholds, and Grafana would turn red at 80", name, p.Title)
	}
	for i, step := range thresholds.Steps {
		if step.Color == "" || (step.Value == nil) != (i == 0) {
			t.Errorf("%s: %q: threshold %d: the first one, and no other, has no value", name, p.Title, i)
		}
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.Expr == "" || target.Datasource != p.Datasource || target.Instant == target.Range {
			t.Errorf("%s: %q: query %+v", name, p.Title, target)
		}
		refs[target.RefID] = true
	}
}

// rules are the expressions of the rules for Prometheus, by alert or record.
func rules(t *testing.T, name string) map[string]rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	load(t, name, &file)
	found := map[string]rule{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			found[r.Alert+r.Record] = r
		}
	}
	return found
}

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// eventReason is how commands request events, and texts name them.
var eventReason = regexp.MustCompile(`(?:reason=|event )([A-Z]\w+)`)

// Each alert says how bad it is and what to do: its runbook exists, and no runbook is left over.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, page := range pages {
		left["runbooks/"+filepath.Base(page)] = true
	}
	delete(left, "runbooks/README.md")
	events := map[event.Reason]bool{}
	for _, d := range event.Docs() {
		events[d.Reason] = true
	}
	index, err := os.ReadFile("../../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range rules(t, "alerts.yaml") {
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: severity, summary and description are needed: %v %v", name, r.Labels, r.Annotations)
		}
		url := r.Annotations["runbook_url"]
		if !strings.Contains(string(index), "["+name+"]("+strings.TrimPrefix(url, "runbooks/")+")") {
			t.Errorf("docs/runbooks/README.md does not list %s with %s", name, url)
		}
		text, err := os.ReadFile(filepath.Join("../../docs", url))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		delete(left, url)
		for _, reason := range eventReason.FindAllStringSubmatch(string(text), -1) {
			if !events[event.Reason(reason[1])] {
				t.Errorf("%s: there is no event %s", url, reason[1])
			}
		}
		for _, want := range []string{"# " + name + "\n", "\n## Meaning\n", "\n## Look\n", "\n## Fix\n", "```"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", url, want)
			}
		}
	}
	for page := range left {
		t.Errorf("%s is the runbook of no alert", page)
	}
}

// What the libraries bring. Their names cannot be looked up here; sandbox/observe finds them in a scrape.
var libraries = regexp.MustCompile(`^(controller_runtime|workqueue|leader_election|process|go)_`)

var (
	selector = regexp.MustCompile(`([a-z][a-z0-9_]*)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// Each query names metrics that exist, by labels that they have.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]metric.Doc{}
	for _, d := range metric.New(prometheus.NewRegistry(), drivers.Driver().Labels).Docs() {
		known[d.Name] = d
	}
	queries := map[string]string{}
	for _, board := range dashboard.Boards() {
		for _, row := range board.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					queries[board.Name+": "+p.Title+" "+q.Legend] = q.Expr
				}
			}
		}
	}
	for _, name := range []string{"alerts.yaml", "recording.yaml"} {
		for rule, r := range rules(t, name) {
			queries[rule] = r.Expr
		}
	}
	named := 0
	for where, expr := range queries {
		for _, found := range selector.FindAllStringSubmatch(expr, -1) {
			name := found[1]
			if !regexp.MustCompile(`^(karpenter|dovetail|operator|aws_sdk_go|client_go)_|_total$`).MatchString(name) || libraries.MatchString(name) {
				continue
			}
			named++
			doc, ok := known[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
					doc, ok = known[base]
				}
			}
			if !ok || doc.Idle {
				t.Errorf("%s: no metric %s", where, name)
			}
			for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
				if l := label[1]; l != "job" && l != "quantile" && !slices.Contains(doc.Labels, l) {
					t.Errorf("%s: %s has no label %s", where, name, l)
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d metrics found in %d queries: the pattern is wrong", named, len(queries))
	}
}
