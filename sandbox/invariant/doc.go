// Package invariant checks, all the time, that what must never happen does not happen: the global
// invariants G1 to G14 of the failure modes, as far as they show in objects, requests and the cloud.
//
// A Checker is pure: it processes changes with their time, and keeps the violations it finds with the
// history of the object. Follow feeds it from watches of an API server, from the requests that came
// through the proxy, and from the emulated account. The comment of each rule says what exactly it can
// see, and so what it cannot.
//
// G14 is no judgement of a moment: Unsettled lists what is left to be done, and a test waits at its end until
// nothing is. G4 needs to be informed when the controller cannot see, by Blind. Start reading at New and Follow.
package invariant
