// Package kubectl does from Go what a user does with kubectl: reads manifests, applies them with
// strict field validation, prints tables, and installs our CRDs. It speaks to any API server.
//
// It knows nothing of what the objects mean, and nothing of how the API server was started.
// Start reading at New.
package kubectl
