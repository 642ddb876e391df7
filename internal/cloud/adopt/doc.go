// Package adopt gives instances to NodeClaims, each to one: those that this process launches, and those that an earlier
// process launched and did not live to write down (decision 7).
//
// A cloud whose launches are not idempotent by the UID of the claim uses it to keep the guarantee of
// cloud.Provider.Launch. Not here: launches, and the end of instances that no claim has (internal/cloud/collect).
// Start reading at Ledger and Adopter.
package adopt
