// Package invariant checks, all the time, that what must never happen does not happen: the global
// invariants G1 to G14 of the failure modes, as far as they show in objects, requests and the cloud.
//
// A Checker is pure: it is told what changed and when, and keeps the violations it finds with the
// history of the object. Follow feeds it from watches of an API server, from the requests that came
// through the proxy, and from the emulated account. The comment of each rule says what exactly it can
// see, and so what it cannot.
//
// Not here: G4, since what the controller knows does not show; G11 and G14, which are what a test waits for
// at its end. Enter at New and Follow.
package invariant
