package policy

import (
	"strings"
	"unicode/utf8"
)

// matchAction compares actions, whose case does not matter.
func matchAction(pattern, action string) bool {
	if strings.EqualFold(pattern, action) {
		return true
	}
	return strings.ContainsAny(pattern, "*?") && matchWildcard(strings.ToLower(pattern), strings.ToLower(action))
}

// arnLike compares ARNs part by part: a wildcard does not reach beyond a colon, except in the last part.
func arnLike(pattern, arn string) bool {
	const parts = 6
	patterns, values := strings.SplitN(pattern, ":", parts), strings.SplitN(arn, ":", parts)
	if len(patterns) != len(values) {
		return false
	}
	for n := range patterns {
		if !matchWildcard(patterns[n], values[n]) {
			return false
		}
	}
	return true
}

// matchWildcard matches * with any text and ? with one character.
func matchWildcard(pattern, value string) bool {
	i, j, star, mark := 0, 0, -1, 0
	for j < len(value) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && pattern[i] == '?':
			_, size := utf8.DecodeRuneInString(value[j:])
			i, j = i+1, j+size
		case i < len(pattern) && pattern[i] == value[j]:
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
