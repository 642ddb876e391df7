// Package userdata writes what an instance reads at its first boot, in the form of its image family.
//
// The user's own text comes first and the generated part last, so that the generated part wins. Output
// depends on the input alone: maps are written in the order of their keys.
//
// Labels and taints are written as they are given. Which labels a kubelet may set, the
// do-not-sync-taints label and the unregistered taint are decided in internal/aws/launch, which knows
// the claim. Not here: the encoding for EC2, and any check of spec.kubelet (internal/aws/kubelet).
//
// Start reading at Render.
package userdata
