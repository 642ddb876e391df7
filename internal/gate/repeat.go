package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/dovetail-sh/dovetail"

// ofTheWhole are flags that matter for many packages and not for one test. No result may come from the
// cache, and vet is welcome.
var ofTheWhole = []string{"-count", "-p", "-vet", "-skip"}

// ofTheChoice are flags that say what runs, and give way to a test that is named.
var ofTheChoice = []string{"-run", "-fuzz", "-fuzztime", "-fuzzminimizetime"}

var (
	// What a test says itself about how to repeat it.
	saysRepeat = regexp.MustCompile(`replay with: (go test .*)`)
	// What rapid prints: with this seed the check that failed is the first one.
	saysSeed = regexp.MustCompile(`-rapid\.seed=\d+`)
	// What the go command prints about an input that it kept in testdata.
	saysInput = regexp.MustCompile(`go test -run=(Fuzz\w+/\w+)`)
)

// repeatFailure is the shortest way to see a failure again: of the test alone and, where its output says
// how, of the seed or the input alone.
func (c *command) repeatFailure(f *failure) string {
	tests, alone := f.tests, *c.test
	for _, line := range f.lines {
		if found := saysRepeat.FindStringSubmatch(line); found != nil {
			return found[1]
		}
		if found := saysInput.FindStringSubmatch(line); found != nil {
			tests = found[1:]
		}
		if found := saysSeed.FindString(line); found != "" {
			alone.args = []string{found}
		}
	}
	only := *c
	only.test = &alone
	return only.repeat(c.relative(f.pkg), tests)
}

// repeat is the command line that runs only the named tests of a package again, from the root of the
// repository. Without tests it runs the whole package.
func (c *command) repeat(pattern string, tests []string) string {
	words := slices.Concat(compiledAs(c.env), []string{"go", "test"})
	if c.dir != "" {
		words = append(words, "-C", c.dir)
	}
	run := runPattern(tests)
	for _, flag := range c.test.flags {
		name, _, _ := strings.Cut(flag, "=")
		if !slices.Contains(ofTheWhole, name) && (run == "" || !slices.Contains(ofTheChoice, name)) {
			words = append(words, quote(flag))
		}
	}
	words = append(words, pattern)
	if run != "" {
		words = append(words, "-run", quote(run))
	}
	words = append(words, "-count=1")
	for _, arg := range c.test.args {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

// compiledAs is the environment that a person needs to find compiled what the gate compiled.
func compiledAs(env []string) []string {
	words := []string{"GOFLAGS=-trimpath"}
	if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "CGO_ENABLED=") }) {
		words = append(words, "CGO_ENABLED=0")
	}
	return append(words, env...)
}

// relative turns an import path into the pattern of that package, seen from the directory of the command.
func (c *command) relative(importPath string) string {
	rest, found := strings.CutPrefix(importPath, path.Join(module, c.dir))
	if !found {
		return importPath
	}
	return "." + rest
}

// runPattern is the argument of -run that matches these tests and none beside them. Several tests share
// a pattern only at the top level.
func runPattern(tests []string) string {
	switch len(tests) {
	case 0:
		return ""
	case 1:
		parts := strings.Split(tests[0], "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		return strings.Join(parts, "/")
	}
	var top []string
	for _, test := range tests {
		name, _, _ := strings.Cut(test, "/")
		top = append(top, name)
	}
	return runAny(top)
}

// runAny is the argument of -run that matches any of these tests at the top level.
func runAny(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// quote makes one word of the shell.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
