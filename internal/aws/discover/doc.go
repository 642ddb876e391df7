// Package discover turns the selector terms of an EC2NodeClass into what they select: subnets,
// security groups, images, capacity reservations and a placement group.
//
// Answers are kept for a while, and shared by classes with equal terms. An error is never an empty answer: callers
// keep what they knew. Not here: conditions and status (internal/aws/nodeclass), free addresses that
// launches in flight will take (internal/aws/launch).
//
// Enter at New; Image is pure and says which image an instance type gets.
package discover
