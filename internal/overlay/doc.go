// Package overlay computes what NodeOverlays make of instance types: other prices, and extended resources.
//
// Read turns a NodeOverlay into an Overlay or refuses it. Evaluate puts the overlays in order, finds conflicts, and
// returns those that hold as a Set, with a Verdict for each. Set.Apply returns the instance types of a NodePool as
// plans are to see them. Nothing that is handed in is changed; a list that no overlay touches is returned as it is.
//
// A State is the set that counts: which pools it covers, when an evaluation changes it, when overlays are evaluated again, and
// a cache of what it made of lists.
//
// Not here: watches, conditions (internal/controller/overlays). Start reading at Evaluate and State.
package overlay
