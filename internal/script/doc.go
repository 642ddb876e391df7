// Package script is the language in which behaviour is written down for tests: lines of text that
// describe a cluster, run a query, and print the result in a fixed form.
//
// A line is a command and its arguments; Commands lists them with usage and an example each.
// Everything a line says is kept until reset. The same text always prints the same result.
// Not here: reading files, comparing with what was expected; tests do that with datadriven.
// Start reading at New and World.Run; World.Snapshot gives the cluster to other askers.
package script
