// Package v1 holds the karpenter.sh/v1 kinds NodePool and NodeClaim: types, labels, the effective
// form and the checks that a schema cannot make.
//
// The types accept more than strict v1: fields of v1beta1 that moved or went away are kept under
// Go names that start with Deprecated, so that an old manifest loses nothing. Effective turns any
// accepted shape into strict v1; nothing outside the API packages reads a Deprecated field.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
