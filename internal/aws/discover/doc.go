// Package discover turns the selector terms of an EC2NodeClass into what they select: subnets, security groups,
// images, capacity reservations and a placement group.
//
// Responses are cached for a while, and shared by classes with equal terms. An error is never an empty response:
// callers keep what they knew. Not here: conditions and status (internal/aws/nodeclass), subnet addresses reserved
// for launches in flight (internal/aws/launch).
//
// Start reading at New; Image is pure and says which image an instance type gets.
package discover
