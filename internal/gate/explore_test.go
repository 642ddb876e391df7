package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The same seed explores the same; each round says what it draws, with what the test gets.
func TestExploration(t *testing.T) {
	t.Parallel()
	all := survey{
		{dir: "internal/reqs", module: ".", tests: true, fuzz: []string{"FuzzA", "FuzzB", "FuzzC", "FuzzD", "FuzzE"}, properties: []string{"TestA"}},
		{dir: "internal/sim", module: ".", tests: true},
	}
	draw := func(seed uint64) []string {
		chance := rand.New(rand.NewPCG(seed, 0))
		var lines []string
		seen := map[string]bool{}
		for k := range 9 {
			s := exploration(all, k, chance)
			if seen[s.name] {
				t.Errorf("round %d is called %s again", k, s.name)
			}
			seen[s.name] = true
			line := s.name + ": " + s.about
			for i := range s.commands {
				line += "\n" + s.commands[i].text()
			}
			lines = append(lines, line)
		}
		return lines
	}
	first := draw(7)
	if again := draw(7); strings.Join(first, "\n") != strings.Join(again, "\n") {
		t.Errorf("seed 7 explores in two ways:\n%s\n%s", first, again)
	}
	if other := draw(8); other[0] == first[0] || other[1] == first[1] {
		t.Errorf("another seed explores the same:\n%s", other)
	}
	for i, want := range []string{"-rapid.checks=100 ", "-seeds=100 ", "-fuzztime=5s", "-rapid.checks=200 ", "-seeds=200 ", "-fuzztime=10s"} {
		if !strings.Contains(first[i], want) {
			t.Errorf("round %d does not have %q:\n%s", i, want, first[i])
		}
	}
	_, seed, _ := strings.Cut(first[0], "-rapid.seed=")
	if about, _, _ := strings.Cut(first[0], "\n"); !strings.Contains(about, "seed "+seed) || !strings.Contains(first[0], "DOVETAIL_EXPLORE=1") {
		t.Errorf("the seed is not told before the run:\n%s", first[0])
	}
}
