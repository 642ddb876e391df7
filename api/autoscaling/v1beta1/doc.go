// Package v1beta1 holds the autoscaling.x-k8s.io/v1beta1 kind CapacityBuffer: room kept free for
// pods that do not exist yet.
//
// Not here: how a buffer is resolved into virtual pods.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
