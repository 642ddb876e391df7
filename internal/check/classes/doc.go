// Package classes changes EC2NodeClasses one field at a time, so that tests can check for every field of
// spec and status whether a digest depends on it. Fields are found by reflection: one that is added to
// the API and left out of a digest, or here, fails the tests of that digest.
//
// Not here: digests. They are in internal/drift and internal/aws/offering, whose tests list the fields
// that do not matter to them, each with the reason. Start reading at Unnoticed.
package classes
