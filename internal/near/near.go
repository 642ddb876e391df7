package near

import (
	"strconv"
	"strings"
)

// Hint is the word that was probably meant, as the end of a message; it is empty when nothing known is near.
func Hint(word string, known []string) string {
	best := Nearest(word, known)
	if best == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(best) + "?"
}

// Nearest returns the word that was probably meant; it is empty when nothing known is near. Of several that are
// equally near the first is returned; capitals alone are no distance.
func Nearest(word string, known []string) string {
	best, distance := "", len(word)/3+1 // a third may be wrong: further away it is another word
	for _, candidate := range known {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
		if d := editDistance(word, candidate); d <= distance && (best == "" || d < distance) {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance is how many letters have to be added, dropped or changed to make one word of the other.
func editDistance(a, b string) int {
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
