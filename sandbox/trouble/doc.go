// Package trouble tries the troubleshooting table of the installation guide (install 17) as a new user
// would: each test provokes one symptom, runs the command of its row with the real kubectl, and looks for
// the expected symptom of the row and for a text that names the fix (S-175 to S-185).
//
// Rows that cannot be provoked here: pods without IP (the sandbox has no CNI), instances that end for want
// of a KMS key (nothing is encrypted; an instance that ends at once is tried), and the service account of
// the chart (the controller runs as a process, without the chart). A second replica and the Helm ownership
// error are in sandbox/takeover. That a node which never registers is replaced after its timeout is in sandbox/flow.
//
// Everything is in the tests. Start reading at beginCase in case_test.go.
package trouble
