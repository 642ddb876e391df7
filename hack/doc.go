// Package hack holds the scripts that operators run. It is a package so that tests which run a script are run again
// when it changes.
package hack
