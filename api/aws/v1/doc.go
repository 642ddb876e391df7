// Package v1 holds the karpenter.k8s.aws/v1 kind EC2NodeClass: types, labels and the effective form.
//
// As in api/v1, shapes of v1beta1 and sloppy v1 are accepted; Effective turns them into strict v1.
// Not here: resolving selectors, images and roles, which needs AWS.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
