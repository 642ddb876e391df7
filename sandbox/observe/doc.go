// Package observe holds what dashboards and alerts show against a cluster that lives: the real controller in a world, a
// real Prometheus that scrapes it, and everything that the queries are about made to happen. Every query of every panel
// and every rule must return data.
//
// There are only tests. What happens is in steps_test.go, one step for each NodePool; what is queried is in queries_test.go.
// Prometheus is Debian's, from PATH: .ci/run puts it there.
package observe
