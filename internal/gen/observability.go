package main

import (
	"os"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/internal/dashboard"
)

// dashboards is where the files for Grafana are.
func dashboards() string { return filepath.Join("observability", "dashboards") }

// chartRules is where the chart has its copy of the rules: Helm reads no file outside a chart.
func chartRules() string { return filepath.Join("charts", "karpenter", "files", "rules") }

// observabilityFiles are the dashboards, and the chart's copy of the rules for Prometheus.
func observabilityFiles() ([]file, error) {
	var files []file
	for _, board := range dashboard.Boards() {
		text, err := board.JSON()
		if err != nil {
			return nil, err
		}
		files = append(files, file{filepath.Join(dashboards(), board.Name+".json"), text})
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
