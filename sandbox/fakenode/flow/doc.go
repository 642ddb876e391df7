// Package flow tests sandbox/fakenode against a real control plane: instances come and go, and their
// Nodes and pods with them. It is apart from the package it tests so that the unit tests there need no
// Kubernetes, and can be run with the race detector. There is nothing to import.
package flow
