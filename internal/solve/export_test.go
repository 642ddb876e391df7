package solve

// Swaps are the moves of few nodes that Consolidate looks for once it finds no others, and whether more might be
// made if budgets let them.
func Swaps(q Question) (moves []Move, limited bool) {
	v, moves := survey(q).swaps(func() bool { return false })
	return moves, v.trimmed
}
