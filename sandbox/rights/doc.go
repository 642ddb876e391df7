// Package rights takes the rights of the chart away from a running controller, one after the other, on one real control
// plane: each is missed in the log with the rule to add, and work goes on once it is back. Rights that may be missing are
// tried with and without. That the chart grants what internal/rights lists is tested in sandbox/clients.
//
// Everything is in the tests. Start reading at beginSubject in controller_test.go.
package rights
