package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// bookDir holds the rule book: one row for every rule, in the file of its family.
const bookDir = "docs/spec"

// notBuilt begins the demand of a rule whose feature does not exist yet. No test can hold it.
const notBuilt = "Not built yet: "

// rule is a row of the rule book.
type rule struct {
	id     string
	demand string
	file   string
	line   int
}

// row is a line of a table whose first cell is an id.
var row = regexp.MustCompile(`^\| ((?:[A-Z]+(?:15)?-[A-Z]?[0-9]+)|G[0-9]+) \| (.+) \|$`)

// readBook returns the rules in the order of the files and their rows. A rule stands in it once.
func readBook(root fs.FS) ([]rule, error) {
	files, err := fs.Glob(root, path.Join(bookDir, "*.md"))
	if err != nil {
		return nil, err
	}
	var rules []rule
	seen := map[string]rule{}
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			m := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil {
				continue
			}
			r := rule{id: m[1], demand: m[2], file: file, line: number}
			if earlier, twice := seen[r.id]; twice {
				return nil, fmt.Errorf("%s:%d: rule %s is also in %s:%d", r.file, r.line, r.id, earlier.file, earlier.line)
			}
			seen[r.id] = r
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("%s has no rules", bookDir)
	}
	return rules, nil
}
