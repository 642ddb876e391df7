// Package profile keeps IAM instance profiles: the one that a role in an EC2NodeClass needs, and none
// that are not used any more (EC2NodeClass 15).
//
// A profile that a user names is never created, changed or deleted. Not here: the condition that shows
// what went wrong (internal/aws/nodeclass).
//
// Start reading at New, Profiles.Ensure and Profiles.Collect.
package profile
