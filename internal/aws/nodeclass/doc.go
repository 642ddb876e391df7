// Package nodeclass keeps EC2NodeClasses: their conditions, what their selectors resolve to, their
// finalizer and their hash, and says whether an instance still is what its class requests.
//
// Next, Stamps and Drift decide and are pure; Classes and Hashes read facts and write what was decided.
// Not here: how selectors are looked up (internal/aws/discover), instance profiles (internal/aws/profile),
// dry runs (internal/aws/launch).
//
// Start reading at Next, or at Classes.Register.
package nodeclass
