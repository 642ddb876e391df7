// Package aws is the cloud: it implements cloud.Provider on EC2 by composing the packages below it, and
// adds the controllers that only this cloud has.
//
// Here are the AWS clients, the wiring, the search for instances that an earlier process paid for, and
// thin shells: tagging, collection of instances without NodeClaim, capacity reservations, refreshers,
// gauges. What the packages below decide is theirs.
//
// Not here: what to buy (internal/solve), the life of a NodeClaim (internal/controller/claims).
// Enter at New, then Cloud.Register.
package aws
