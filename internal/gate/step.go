package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/near"
)

// A lane is a queue of steps of which one runs at a time.
type lane string

const (
	// Steps that keep every core busy. They yield to the other lane.
	laneCPU lane = "cpu"
	// Steps that mostly wait for a control plane, and are slow to respond when they have to wait for a core.
	laneCluster lane = "cluster"
)

// A step is one check: what it is for, what it runs, and what has to come before it.
type step struct {
	name     string
	about    string
	lane     lane
	needs    []string // steps it cannot do without; they run too when only this one is requested
	after    []string // steps that have ended before it starts, where they run at all
	usually  time.Duration
	commands []command // one after the other, until one fails
	mend     string    // the command that does away with most failures, where there is one
	// inputs are the files and folders that the step is about, where these are few. The gate runs it only when they differ
	// from those over which it passed last, see recordFile.
	inputs []string
}

// A command is one process.
type command struct {
	what string // for readers, where a step has several
	dir  string // from the root of the repository; "" is the root
	env  []string
	argv []string
	test *goTest // set where the process is go test; argv is then empty

	compiles bool // and does nothing else
}

// goTest is one run of go test. Its parts are apart so that a single test of it can be repeated.
type goTest struct {
	flags    []string // of go test
	packages []string // as patterns, relative to the directory of the command
	args     []string // of the test binary
	onPlane  bool     // on control planes, with controllers beside them
}

// arguments returns what to start; every run of go test prints events.
func (c *command) arguments(tool string) []string {
	switch {
	case c.test == nil && c.argv[0] == "go":
		return append([]string{tool}, c.argv[1:]...)
	case c.test == nil:
		return c.argv
	}
	return slices.Concat([]string{tool, "test", "-json"}, c.test.flags, c.test.packages, c.test.args)
}

// tuning is environment that makes a command quicker and changes nothing else, so that it is not part of how a person
// repeats it. Compilers and tests allocate much and keep little: a fifth of the time of compilers and a third of that of
// tests would go into collecting garbage. Tests on control planes start controllers, which would inherit this, and users
// do not have it.
func (c *command) tuning() []string {
	switch {
	case c.compiles:
		return []string{"GOGC=200"} // more would take 5 GB for some packages
	case c.test != nil && !c.test.onPlane:
		return []string{"GOGC=400"}
	}
	return nil
}

// text is the command as a person would type it at the root of the repository.
func (c *command) text() string {
	if c.test != nil {
		return c.repeat(strings.Join(c.test.packages, " "), nil)
	}
	words := slices.Clone(c.env)
	for _, word := range c.argv {
		words = append(words, quote(word))
	}
	line := strings.Join(words, " ")
	if c.dir != "" {
		line = "cd " + c.dir + " && " + line
	}
	return line
}

// A catalogue is every step there is, in the order in which a lane runs them.
type catalogue []step

// uncache has every test run, whatever Go's cache has.
func (c catalogue) uncache() {
	for _, s := range c {
		for i := range s.commands {
			test := s.commands[i].test
			if test != nil && !slices.ContainsFunc(test.flags, func(flag string) bool { return strings.HasPrefix(flag, "-count=") }) {
				test.flags = append(test.flags, "-count=1")
			}
		}
	}
}

func (c catalogue) find(name string) (step, bool) {
	if i := slices.IndexFunc(c, func(s step) bool { return s.name == name }); i >= 0 {
		return c[i], true
	}
	return step{}, false
}

// choose returns the named steps and all they need, in the order of the catalogue.
func (c catalogue) choose(names []string) ([]step, error) {
	wanted := map[string]bool{}
	for queue := slices.Clone(names); len(queue) > 0; queue = queue[1:] {
		if wanted[queue[0]] {
			continue
		}
		found, ok := c.find(queue[0])
		if !ok {
			return nil, c.unknown(queue[0])
		}
		wanted[found.name] = true
		queue = append(queue, found.needs...)
	}
	var chosen []step
	for _, s := range c {
		if wanted[s.name] {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func (c catalogue) unknown(name string) error {
	var names []string
	for _, s := range c {
		names = append(names, s.name)
	}
	return fmt.Errorf("there is no step %q%s\nsteps: %s\n`make steps` says what each does", name, near.Hint(name, names), strings.Join(names, " "))
}
