// Package v1alpha1 holds the karpenter.sh/v1alpha1 kind NodeOverlay, which adjusts the price and
// the capacity of instance types in plans.
//
// Not here: how overlays combine and conflict.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
