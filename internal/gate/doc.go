// Command gate runs the checks of this repository: `make quick`, `make test`, `make test-deep` and
// `make explore` are four selections of its steps.
//
// The table of steps (table.go) says what each runs, what it needs and in which lane it waits for its
// turn. What to start next, what an event of go test means, what is worth printing and how to repeat a
// failure are pure functions of values; processes, files, signals and the clock are in process.go,
// runner.go and main.go. Not here: the checks themselves. Start reading at table.go.
package main
