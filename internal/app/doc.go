// Package app wires the controller: it turns a Config into a manager with its reconcilers and runs
// it. It holds no rules and no reconcilers, and only the command imports it.
//
// Enter at Run.
package app
