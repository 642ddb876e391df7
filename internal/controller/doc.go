// Package controller holds the reconcilers, one file each. A reconciler reads facts, asks a pure
// package what to do, and does it; it has no rules of its own.
//
// Not here: wiring (internal/app) and anything of a cloud.
package controller
