// Package cases holds the admission cases: manifests, one accepting and one refusing for each rule,
// and what the API server must say to them. They run against the API server's libraries in
// internal/admission and against a real API server in sandbox/.
//
// Only tests import it. Start reading at All.
package cases
