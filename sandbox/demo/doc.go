// Package demo shows the main job in a sandbox: pods that wait get nodes, a spot node is interrupted and
// replaced, pods on half-empty nodes move together, and unneeded nodes are removed. The expected result of a step is
// checked, so the demo is a test too.
//
// It uses what a user has: manifests, kubectl scale, the objects, the log of the controller. Only prices
// and the interruption come from the emulated account. Start reading at Run; steps.go is what to change when there
// is more to show.
package demo
