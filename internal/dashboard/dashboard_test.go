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
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/dashboard"
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
	Datasource  struct{ UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
}

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
			UID, Title, Description string
			SchemaVersion           int
			Templating              struct{ List []struct{ Name, Type string } }
			Panels                  []panel
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if file.UID == "" || uids[file.UID] || file.Title == "" || file.Description == "" || file.SchemaVersion == 0 {
			t.Errorf("%s: uid %q, title %q, description %q, schema %d", name, file.UID, file.Title, file.Description, file.SchemaVersion)
		}
		uids[file.UID] = true
		if len(file.Templating.List) == 0 || file.Templating.List[0].Name != "datasource" || file.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the first variable chooses no data source", name)
		}
		checkPanels(t, name, file.Panels)
	}
}

func checkPanels(t *testing.T, name string, panels []panel) {
	t.Helper()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("%s: panel %d %q: an id of its own and a title are needed", name, p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if x >= 24 || taken[[2]int{x, y}] != "" {
					t.Fatalf("%s: %q lies on %q, or beside the grid", name, p.Title, taken[[2]int{x, y}])
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: %q lacks a description, a unit, the chosen data source or a query", name, p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Expr == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q: query %+v", name, p.Title, target)
			}
			refs[target.RefID] = true
		}
	}
}

// rules are the expressions of the rules for Prometheus, by alert or record.
func rules(t *testing.T, name string) map[string]rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "rules", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
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
	for name, r := range rules(t, "alerts.yaml") {
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: severity, summary and description are needed: %v %v", name, r.Labels, r.Annotations)
		}
		url := r.Annotations["runbook_url"]
		text, err := os.ReadFile(filepath.Join("../../docs", url))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		delete(left, url)
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
	for _, d := range metric.New(prometheus.NewRegistry()).Docs() {
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
