// Package observe turns the state of the cluster into metrics, and warns of deprecated annotations. It decides nothing.
//
// StateMetrics follows pods, Nodes and NodePools, ConditionMetrics the conditions of every kind; both take them from the
// informers and make their series when Prometheus scrapes. AnnotationDeprecations emits events. Nothing else is written.
//
// Not here: the definitions of metrics (internal/metric), and metrics that a controller counts while it works. Enter at
// StateMetrics.Collect.
package observe
