package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// How sections are cited: disruption 17, API-2.2, scheduling 6.1 and 6.2, SC-3.4c. A letter is a row of the section.
var (
	sectionCited  = regexp.MustCompile(`\b(API|[Aa]pi|[Ss]cheduling|[Dd]isruption|lifecycle|SC|LC|EC2NodeClass|AWS provider|[Oo]perations|[Ii]nstall|[Pp]acking|emulator|README decision)[ -]((?:[0-9]{1,2}(?:\.[0-9]{1,2})?[a-z]?\b(?:, | and |/| to )?)+)`)
	sectionNumber = regexp.MustCompile(`[0-9]{1,2}(?:\.[0-9]{1,2})?(?:a\b)?`)
	sectionRow    = regexp.MustCompile(`(?m)^\| ((?:API|[a-z]+|EC2NodeClass|AWS provider|README decision) [0-9.]+a?) \| (.+) \|$`)
)

// topics are the other ways to write a topic. A rule id without a dot, such as SC-37, is no section.
var topics = map[string]string{"api": "API", "Api": "API", "SC": "scheduling", "LC": "lifecycle"}

// sectionsIn returns the sections that a text cites.
func sectionsIn(text string) []string {
	var out []string
	for _, m := range sectionCited.FindAllStringSubmatch(text, -1) {
		topic, known := topics[m[1]]
		if !known {
			topic = m[1]
			if first := topic[:1]; topic != "API" && topic != "EC2NodeClass" && topic != "AWS provider" && topic != "README decision" {
				topic = strings.ToLower(first) + topic[1:]
			}
		}
		for _, number := range sectionNumber.FindAllString(m[2], -1) {
			if ruleID := m[1] == "SC" || m[1] == "LC"; ruleID && !strings.Contains(number, ".") {
				continue
			}
			if number != "15a" { // the only section with a letter
				number = strings.TrimSuffix(number, "a")
			}
			out = append(out, topic+" "+number)
		}
	}
	return out
}

func TestSectionsIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Disruption 25.7, 25.8.":              "disruption 25.7 disruption 25.8",
		"API-2.2 and API-6.3a":                "API 2.2 API 6.3",
		"Balanced (disruption 15a) and 3":     "disruption 15a",
		"a row (scheduling 3.4 f), SC-3.4c":   "scheduling 3.4 scheduling 3.4",
		"SC-37 and LC-02 are rules":           "",
		"Start-up as in AWS provider 2 and 9": "AWS provider 2 AWS provider 9",
		"EC2NodeClass 16: the hash":           "EC2NodeClass 16",
		"three disruptions, 2 nodes":          "",
	} {
		if got := strings.Join(sectionsIn(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A section that code, tests or scripts cite says on the page of sections what it demands; a section that nothing cites is
// not listed.
func TestEveryCitedSectionIsExplained(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	page, err := fs.ReadFile(root, bookDir+"/sections.md")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]int{}
	for _, m := range sectionRow.FindAllStringSubmatch(string(page), -1) {
		uses[m[1]] = 0
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, name):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains([]string{".go", ".txt", ".yaml"}, path.Ext(name)) || strings.HasSuffix(name, "rules/sections_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for number, line := range strings.Split(string(text), "\n") {
			for _, section := range sectionsIn(line) {
				if _, known := uses[section]; !known {
					t.Errorf("%s:%d cites %s, which is not in %s/sections.md", name, number+1, section, bookDir)
				}
				uses[section]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range slices.Sorted(maps.Keys(uses)) {
		if uses[section] == 0 {
			t.Errorf("%s: nothing cites it; remove the row", section)
		}
	}
}
