// Package admission decides what the API server would: does a manifest pass the schema and the CEL
// rules of our CRDs, and what does it look like once defaults are filled in. It uses the API
// server's own libraries. It also holds the admission cases, one accepting and one refusing for
// each rule, which run here against those libraries and in sandbox/ against a real API server.
//
// Only tests and developer tools import it. Enter at New and Cases.
package admission
