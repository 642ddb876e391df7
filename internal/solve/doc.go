// Package solve places pods on nodes, existing or new, as cheaply as it can, and says why when it
// cannot. The same Problem gives the same Plan.
//
// Not here: clients, clocks, logging, metrics, retries; callers own those. Enter at Solve; Consolidate
// asks which nodes could go.
package solve
