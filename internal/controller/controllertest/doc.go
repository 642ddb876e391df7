// Package controllertest has what the tests of several controllers need: the scheme of a fake API server, NodePools and
// pods, a catalogue of two instance types, and recorders of events.
//
// Not here: the scenes of one controller, which are next to its tests, and anything that a binary uses.
package controllertest
