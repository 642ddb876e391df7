// Package kubelet reads spec.kubelet of an EC2NodeClass: strictly against the kubelet's own
// configuration type, with the rules of EC2NodeClass 10 on top, and with CEL expressions where a
// number depends on the instance type. The block that v1beta1 had on pools and claims may say less.
//
// It is pure. Not here: how the fields become user data (internal/aws/userdata), what they leave for
// pods (internal/aws/offering).
//
// Start reading at Parse, Check, CheckOverride and Config.For.
package kubelet
