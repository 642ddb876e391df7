// Package dashboard holds the Grafana dashboards as tables: what a panel shows, with which queries, and what it means.
// Positions, numbers and the rest of Grafana's JSON follow from that, so that a change of a query is one line.
// internal/gen writes the files in observability/dashboards.
//
// Start reading at Boards.
package dashboard
