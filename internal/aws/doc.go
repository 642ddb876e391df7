// Package aws is the cloud: it implements cloud.Provider on EC2 by composing the packages below it, and
// adds the controllers that only this cloud has.
//
// Here are the AWS clients, the wiring, and thin shells: tagging, capacity reservations, refreshers. What the
// packages below decide is theirs, and what every cloud needs is below internal/cloud.
//
// Not here: what to launch (internal/solve), the life of a NodeClaim (internal/controller).
// Start reading at Driver.
package aws
