// Package commands plays users of dovetail: it runs commands as they do, with a kubeconfig whose requests are
// recorded, and judges what comes of them. A Server stands between the command and the API server and knows every request, so
// that tests can count them and see that none writes. Normalize replaces what differs from run to run in an output, so that
// Golden can compare it with a file.
package commands
