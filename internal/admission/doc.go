// Package admission decides what the API server would: does a manifest pass the schema and the CEL
// rules of our CRDs, and what does it look like once defaults are filled in. It uses the API
// server's own libraries.
//
// The controller does not need it: the API server has judged before. Start reading at New.
package admission
