// Package catalog holds what can be launched: instance types, their offerings and prices.
//
// Values only. Not here: how a cloud is queried (internal/aws), which of them a pod fits (internal/solve).
// Start reading at InstanceType.
package catalog
