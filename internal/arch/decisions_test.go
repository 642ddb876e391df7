package arch_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxRecord is how many lines a decision record has at most: a page.
const maxRecord = 45

// A decision record says what holds now, on a page, in the same five parts, and the index has it.
func TestDecisionsArePages(t *testing.T) {
	t.Parallel()
	const dir = "docs/decisions"
	index, named := readRoot(t, dir+"/README.md"), regexp.MustCompile(`^([0-9]{4})-[a-z0-9-]+\.md$`)
	for _, name := range repository(t).files {
		base := path.Base(name)
		if path.Dir(name) != dir || base == "README.md" {
			continue
		}
		number := named.FindStringSubmatch(base)
		if number == nil {
			t.Errorf("%s: a record is called NNNN-what-is-decided.md", name)
			continue
		}
		text := readRoot(t, name)
		title, rest, _ := strings.Cut(strings.TrimPrefix(text, "# "+number[1]+": "), "\n")
		if strings.HasPrefix(title, "#") || !strings.Contains(index, "| ["+number[1]+"]("+base+") | "+title+" |\n") {
			t.Errorf("%s: the index has no row with its title, %q", name, title)
		}
		for _, part := range []string{"**Status:**", "**Context.**", "**Decision.**", "**Consequences.**", "**Alternatives.**"} {
			_, after, found := strings.Cut(rest, "\n"+part)
			if !found {
				t.Errorf("%s: %s is missing, or not where it belongs", name, part)
				continue
			}
			rest = after
		}
		if n := strings.Count(text, "\n"); n > maxRecord {
			t.Errorf("%s has %d lines, more than a page of %d", name, n, maxRecord)
		}
	}
}
