// Package controller is the directory of the controllers, one package for each concern. A controller reads facts, has a
// pure package decide and performs the step that it returns; it has no rules of its own.
//
// provisioning creates NodeClaims for pending pods, claims turns them into nodes, nodes drains and terminates both,
// disruption removes and replaces nodes voluntarily, pools writes the status of NodePools and keeps static ones at their
// size, and observe turns objects into metrics and warnings. No concern imports another: internal/app connects them.
// What they have in common is in loop, lookup and write.
package controller
