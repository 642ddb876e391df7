package scenario

import "strconv"

// meant suggests the name that was probably meant, as the end of a message; it is empty when nothing
// known is near.
func meant(name string, known []string) string {
	best := Nearest(name, known)
	if best == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(best) + "?"
}

// Nearest returns the name that was probably meant; it is empty when nothing known is near.
func Nearest(name string, known []string) string {
	best, distance := "", len(name)/3+1 // a third may be wrong: further away it is another word
	for _, candidate := range known {
		if d := apart(name, candidate); d <= distance && (best == "" || d < distance) {
			best, distance = candidate, d
		}
	}
	return best
}

// apart is how many letters have to be added, dropped or changed to make one word of the other.
func apart(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
