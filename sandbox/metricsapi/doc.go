// Package metricsapi serves metrics.k8s.io, as a metrics-server does, for a cluster where nothing runs
// that could be measured: a running container uses what it requests, and a node the sum of that.
//
// It serves what kubectl top requests. Who may call it, and how the API server finds it, is left to the
// caller. Start reading at New.
package metricsapi
