// Package determinism holds the test that equal input gives equal decisions, byte for byte: it makes whole
// decisions several times, in processes of their own, and compares what they say. The order of a map differs
// from one loop to the next and from one process to the next, and so does whatever depends on it.
//
// Not here: product code; nothing imports this package. A kind of decision that no other one covers is added
// to decisions in decisions_test.go. Start reading at determinism_test.go.
package determinism
