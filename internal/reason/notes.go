package reason

// Notes collects what was read into a manifest. With Strict set, the same findings become refusals:
// the manifest leaned on something that strict compatibility does not offer.
type Notes struct {
	Strict bool
	List   []Reason
}

// Old notes that an old form was read as the one wanted.
func (n *Notes) Old(rule, subject, have, want string) {
	n.add(OldFieldRead, rule, subject, have, want)
}

// Note notes a finding of another code.
func (n *Notes) Note(code Code, rule, subject, have, want string) {
	n.add(code, rule, subject, have, want)
}

// Assumed notes that a field was absent and got the value wanted.
func (n *Notes) Assumed(rule, subject, want string) {
	n.add(DefaultAssumed, rule, subject, "leaving this out", want)
}

func (n *Notes) add(code Code, rule, subject, have, want string) {
	if n.Strict {
		code = NotStrict
	}
	n.List = append(n.List, Reason{Code: code, Rule: rule, Subject: subject, Have: have, Want: want})
}

// Refusals returns the reasons for which an object cannot be used, leaving out those that only
// inform.
func Refusals(reasons []Reason) []Reason {
	var refused []Reason
	for _, r := range reasons {
		switch r.Code {
		case DefaultAssumed, OldFieldRead, ShortFormRead, FieldIgnored, ProfileGivenAsRole, UserDataBootstraps, ImageFamilyRetired:
		default:
			refused = append(refused, r)
		}
	}
	return refused
}
