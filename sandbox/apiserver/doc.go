// Package apiserver holds tests of our CRDs against a real API server: the admission cases of
// internal/admission, the manifests that users wrote, and what kubectl shows of each kind.
//
// One control plane, without scheduler and controllers, serves all tests of the package. There is
// no code here to import.
package apiserver
