package reason

import (
	"slices"
	"strconv"
	"strings"
)

// Code names one kind of reason. Codes are API: they are never renamed and never reused.
type Code string

// Reason says why one thing was refused, assumed or changed.
type Reason struct {
	Code    Code     `json:"code"`
	Rule    string   `json:"rule,omitempty"`    // specification rule it follows from, such as "L-03"
	Subject string   `json:"subject,omitempty"` // "nodepool/default", "spec.template.spec.taints[0].key"
	Want    string   `json:"want,omitempty"`
	Have    string   `json:"have,omitempty"`
	Because []Reason `json:"because,omitempty"` // causes, most important first
}

// shownCauses bounds how many causes Text prints: past that a wall of text hides the useful part.
const shownCauses = 3

// Text renders the reason as one readable sentence: subject, what is wrong, what would be right,
// then at most three causes. It is total: an unknown code renders its fields.
func (r Reason) Text() string {
	var b strings.Builder
	r.write(&b)
	return b.String()
}

func (r Reason) write(b *strings.Builder) {
	if r.Subject != "" {
		b.WriteString(r.Subject)
		b.WriteString(": ")
	}
	r.sentence(b)
	if r.Rule != "" {
		b.WriteString(" (" + r.Rule + ")")
	}
	for i, cause := range r.Because {
		if i == shownCauses {
			b.WriteString("; and " + strconv.Itoa(len(r.Because)-i) + " more")
			break
		}
		b.WriteString("; ")
		cause.write(b)
	}
}

// sentence writes the form of the code with its fields filled in; what stands in them is not read again.
func (r Reason) sentence(b *strings.Builder) {
	form := "{code}: have {have}, want {want}"
	if doc, known := Lookup(r.Code); known {
		form = doc.Form
	}
	for form != "" {
		text, rest, _ := strings.Cut(form, "{")
		b.WriteString(text)
		field, after, _ := strings.Cut(rest, "}")
		switch field {
		case "code":
			b.WriteString(string(r.Code))
		case "want":
			b.WriteString(r.Want)
		case "have":
			b.WriteString(r.Have)
		}
		form = after
	}
}

// Join renders several reasons for one message, in order, separated by "; ". It shows at most limit
// of them and counts the rest; limit 0 shows all.
func Join(reasons []Reason, limit int) string {
	shown := reasons
	if limit > 0 && len(shown) > limit {
		shown = shown[:limit]
	}
	texts := make([]string, 0, len(shown)+1)
	for _, r := range shown {
		texts = append(texts, r.Text())
	}
	if rest := len(reasons) - len(shown); rest > 0 {
		texts = append(texts, "and "+strconv.Itoa(rest)+" more")
	}
	return strings.Join(texts, "; ")
}

// CodesOf lists the codes of reasons and of their causes, each once, in alphabetical order, separated by "+". Two lists of
// reasons with equal codes differ in subjects and amounts only.
func CodesOf(reasons []Reason) string {
	var codes []string
	collectCodes(reasons, &codes)
	slices.Sort(codes)
	return strings.Join(slices.Compact(codes), "+")
}

func collectCodes(reasons []Reason, codes *[]string) {
	for i := range reasons {
		*codes = append(*codes, string(reasons[i].Code))
		collectCodes(reasons[i].Because, codes)
	}
}

// Lookup returns the documentation of a code.
func Lookup(code Code) (doc Doc, known bool) {
	each(func(d Doc) bool {
		if known = d.Code == code; known {
			doc = d
		}
		return !known
	})
	return doc, known
}
