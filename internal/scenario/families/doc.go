// Package families makes the benchmark scenarios: pods waiting for nodes (s1 to s7) and nodes waiting
// to be given up (c1 to c5), on the instance types and prices of one AWS region. The same name and seed
// give the same scenario.
//
// Not here: reading scenarios (internal/scenario), running them (internal/bench). The table of types
// comes from the sandbox's generator. Start reading at Names and Make.
package families
