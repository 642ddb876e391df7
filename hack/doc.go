// Package hack holds the scripts that operators run, and is a package so that tests which run a script are run again when
// it changes. Its own tests check what a script refuses before it makes a call; those that run it against the emulated
// AWS are in sandbox/setup.
//
// Start reading at setup-karpenter-iam.sh.
package hack
