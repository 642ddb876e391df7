package snapshot

import "github.com/dovetail-sh/dovetail/internal/reqs"

// AnonymizeWithNames is Anonymize with the replacements by name.
func (f *File) AnonymizeWithNames(words reqs.Vocabulary) (*File, map[string]string, error) {
	return f.anonymize(words)
}
