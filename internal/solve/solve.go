package solve

// Solve places the pods of a problem. It is total: bad input becomes a Reason. stop is polled between
// placements; once it says true, what was decided is kept and the Plan is Partial.
func Solve(p Problem, stop func() bool) Plan {
	m := compile(p)
	s := newState(m, stop)
	left := m.remaining()
	s.greedy(left)
	return s.plan(left)
}
