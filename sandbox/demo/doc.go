// Package demo shows on a real API server what works today: the CRDs, manifests as users write
// them, what is read into them, and the refusal of wrong ones. A step that does not hold is an
// error, so the demo is a test too.
//
// It grows with the product; describe.go is what to change when manifests say more. Enter at Run.
package demo
