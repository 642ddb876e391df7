package v1

import "github.com/dovetail-sh/dovetail/internal/reqs"

// Entries returns requirements in the form that the algebra reads.
func Entries(list []Requirement) []reqs.Entry {
	out := make([]reqs.Entry, 0, len(list))
	for _, r := range list {
		entry := reqs.Entry{Key: r.Key, Operator: r.Operator, Values: r.Values}
		if r.MinValues != nil {
			entry.MinValues = *r.MinValues
		}
		out = append(out, entry)
	}
	return out
}
