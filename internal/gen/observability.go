package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/internal/dashboard"
)

// dashboards is where the files for Grafana are.
func dashboards() string { return filepath.Join("observability", "dashboards") }

// chartRules is where the chart has its copy of the rules: Helm reads no file outside a chart.
func chartRules() string { return filepath.Join("charts", "karpenter", "files", "rules") }

// chartDashboards is where the chart has its copy of the dashboards, in one line each, because they are not read there.
func chartDashboards() string { return filepath.Join("charts", "karpenter", "files", "dashboards") }

// observabilityFiles are the dashboards, and the chart's copies of them and of the rules for Prometheus.
func observabilityFiles() ([]file, error) {
	var files []file
	for _, board := range dashboard.Boards() {
		text, err := board.JSON()
		if err != nil {
			return nil, err
		}
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return nil, err
		}
		files = append(files,
			file{filepath.Join(dashboards(), board.Name+".json"), text},
			file{filepath.Join(chartDashboards(), board.Name+".json"), line.Bytes()})
	}
	for _, name := range []string{"alerts.yaml", "recording.yaml"} {
		text, err := os.ReadFile(filepath.Join("observability", "rules", name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{filepath.Join(chartRules(), name), append([]byte("# A copy of observability/rules/"+name+" by internal/gen. Do not edit; run: make generate\n"), text...)})
	}
	return files, nil
}
