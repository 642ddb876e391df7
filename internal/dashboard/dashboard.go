package dashboard

import (
	"bytes"
	"encoding/json"
)

// Board is one dashboard.
type Board struct {
	Name        string // of its file
	Title       string
	Description string
	Rows        []Row
}

// Row is a headline with panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one graph, or one number if Stat is set.
type Panel struct {
	Title       string
	Description string
	Unit        string // as Grafana calls it
	Stat        bool
	Stack       bool
	Wide        bool // takes the whole width
	// Warn is the value from which on there is something to do, Least the value below which; 0 means that there is none.
	Warn, Least float64
	Queries     []Query
}

// Query is an expression, and what its series are called.
type Query struct {
	Expr   string
	Legend string
}

// Grafana's grid has 24 columns.
const (
	columns    = 24
	graphWidth = 12
	graphTall  = 8
	statWidth  = 6
	statTall   = 4
)

// JSON renders a dashboard for Grafana's import.
func (b Board) JSON() ([]byte, error) {
	var panels []panel
	id, y := 0, 0
	add := func(p panel) {
		id++
		p.ID = id
		panels = append(panels, p)
	}
	for _, row := range b.Rows {
		add(panel{Type: "row", Title: row.Title, Grid: grid{H: 1, W: columns, Y: y}, Targets: []target{}})
		y++
		x, tall := 0, 0
		for _, p := range row.Panels {
			width, height := p.size()
			if x+width > columns {
				x, y, tall = 0, y+tall, 0
			}
			drawn := p.draw()
			drawn.Grid = grid{H: height, W: width, X: x, Y: y}
			add(drawn)
			x, tall = x+width, max(tall, height)
		}
		y += tall
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // so that queries can be read
	enc.SetIndent("", "  ")
	err := enc.Encode(board{
		UID: "dovetail-" + b.Name, Title: "Dovetail / " + b.Title, Description: b.Description, Tags: []string{"dovetail", "karpenter"},
		Schema: 39, Editable: true, Timezone: "browser", Refresh: "1m", Time: span{From: "now-6h", To: "now"},
		Links:      []link{{Type: "dashboards", Title: "Dovetail", Tags: []string{"dovetail"}, AsDropdown: true, KeepTime: true, IncludeVars: true}},
		Templating: variables{List: b.variables()}, Annotations: variables{List: []variable{}}, Panels: panels,
	})
	return text.Bytes(), err
}

func (p *Panel) size() (width, height int) {
	switch {
	case p.Stat:
		return statWidth, statTall
	case p.Wide:
		return columns, graphTall
	default:
		return graphWidth, graphTall
	}
}

func (p *Panel) draw() panel {
	out := panel{
		Type: "timeseries", Title: p.Title, Description: p.Description, Source: source,
		Field: &field{Defaults: defaults{Unit: p.Unit, Min: new(0.0), Thresholds: p.thresholds()}, Overrides: []string{}},
	}
	if p.Stat {
		out.Type = "stat"
		color := "none"
		if p.Warn > 0 || p.Least > 0 {
			color = "value"
		}
		out.Options = map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}, "colorMode": color}
	} else {
		out.Options = map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}}
		out.Field.Defaults.Custom = map[string]any{"fillOpacity": 10, "showPoints": "never"}
	}
	if p.Stack {
		out.Field.Defaults.Custom = map[string]any{"fillOpacity": 30, "showPoints": "never", "stacking": map[string]any{"mode": "normal"}}
	}
	if p.Warn > 0 && !p.Stat {
		out.Field.Defaults.Custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
	}
	for i, q := range p.Queries {
		out.Targets = append(out.Targets, target{Expr: q.Expr, Legend: q.Legend, Ref: string(rune('A' + i)), Source: source, Instant: p.Stat, Range: !p.Stat})
	}
	return out
}

// thresholds colour what is well green. Without any of them Grafana turns red at 80.
func (p *Panel) thresholds() thresholds {
	const well, bad = "green", "red"
	steps := []threshold{{Color: well}}
	switch {
	case p.Warn > 0:
		steps = append(steps, threshold{Color: bad, Value: &p.Warn})
	case p.Least > 0:
		steps = []threshold{{Color: bad}, {Color: well, Value: &p.Least}}
	}
	return thresholds{Mode: "absolute", Steps: steps}
}

// variables are what a reader can choose at the top: where Prometheus is, which controller, and which pools.
func (b Board) variables() []variable {
	list := []variable{{Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus"}}
	for i, query := range Variables() {
		list = append(list, variable{
			Name: []string{"job", "nodepool"}[i], Label: []string{"Job", "NodePool"}[i], Type: "query", Query: query,
			Source: &source, Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".+",
		})
	}
	return list
}

// Variables are the queries that find out what can be chosen: the job and the NodePools.
func Variables() []string {
	return []string{"label_values(karpenter_build_info, job)", "label_values(karpenter_nodepools_usage, nodepool)"}
}

var source = datasource{Type: "prometheus", UID: "${datasource}"}

// What follows is as much of Grafana's model as is used.
type (
	board struct {
		UID         string    `json:"uid"`
		Title       string    `json:"title"`
		Description string    `json:"description"`
		Tags        []string  `json:"tags"`
		Schema      int       `json:"schemaVersion"`
		Editable    bool      `json:"editable"`
		Timezone    string    `json:"timezone"`
		Refresh     string    `json:"refresh"`
		Time        span      `json:"time"`
		Links       []link    `json:"links"`
		Templating  variables `json:"templating"`
		Annotations variables `json:"annotations"`
		Panels      []panel   `json:"panels"`
	}
	span struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	link struct {
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Tags        []string `json:"tags"`
		AsDropdown  bool     `json:"asDropdown"`
		KeepTime    bool     `json:"keepTime"`
		IncludeVars bool     `json:"includeVars"`
	}
	variables struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string      `json:"name"`
		Label      string      `json:"label"`
		Type       string      `json:"type"`
		Query      string      `json:"query"`
		Source     *datasource `json:"datasource,omitempty"`
		Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes
		Multi      bool        `json:"multi,omitempty"`
		IncludeAll bool        `json:"includeAll,omitempty"`
		AllValue   string      `json:"allValue,omitempty"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	grid struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	panel struct {
		ID          int            `json:"id"`
		Type        string         `json:"type"`
		Title       string         `json:"title"`
		Description string         `json:"description,omitempty"`
		Grid        grid           `json:"gridPos"`
		Source      datasource     `json:"datasource,omitzero"`
		Field       *field         `json:"fieldConfig,omitempty"`
		Options     map[string]any `json:"options,omitempty"`
		Targets     []target       `json:"targets"`
	}
	field struct {
		Defaults  defaults `json:"defaults"`
		Overrides []string `json:"overrides"`
	}
	defaults struct {
		Unit       string         `json:"unit"`
		Min        *float64       `json:"min"`
		Thresholds thresholds     `json:"thresholds"`
		Custom     map[string]any `json:"custom,omitempty"`
	}
	thresholds struct {
		Mode  string      `json:"mode"`
		Steps []threshold `json:"steps"`
	}
	threshold struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"` // the first has none
	}
	target struct {
		Ref     string     `json:"refId"`
		Source  datasource `json:"datasource"`
		Expr    string     `json:"expr"`
		Legend  string     `json:"legendFormat"`
		Instant bool       `json:"instant"`
		Range   bool       `json:"range"`
	}
)
