// Package arch holds the rules of the repository as tests: which package may import which, what
// every package must document, names that are forbidden, the budget of go.mod, the one way in which
// old API fields may be read, and that the order of maps never matters.
//
// Not here: product code; nothing imports this package. The tests read source files and need no git; only
// order_test.go needs types, and so a build that succeeds. Start reading at layers_test.go; a new package is added to
// its table.
package arch
