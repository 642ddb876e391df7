package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	all := steps(survey{}, settings{})
	for name, tc := range map[string]struct {
		names   []string
		want    string
		wantErr string
	}{
		"a step brings what it needs":    {names: []string{"lint"}, want: "tools lint"},
		"in the order of the table":      {names: []string{"sandbox", "lint", "sandbox"}, want: "sandbox-build tools lint sandbox"},
		"not what it only comes after":   {names: []string{"race"}, want: "race"},
		"a slip is told with a proposal": {names: []string{"lnt"}, wantErr: `there is no step "lnt"; did you mean "lint"?`},
		"and with all there are":         {names: []string{"everything"}, wantErr: "steps: sandbox-build tools format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := all.choose(tc.names)
			if names(got) != tc.want {
				t.Errorf("choose() = %q, want %q", names(got), tc.want)
			}
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// A step comes after all that it waits for, so that one lane can run the table from top to bottom.
func TestTableIsSound(t *testing.T) {
	t.Parallel()
	all := steps(survey{{dir: "internal/reqs", module: ".", fuzz: []string{"FuzzNew"}}}, settings{changed: []string{"internal/reqs/set.go"}})
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.name] {
			t.Errorf("%s is there twice", s.name)
		}
		for _, before := range slices.Concat(s.needs, s.after) {
			if !seen[before] {
				t.Errorf("%s waits for %s, which is not above it", s.name, before)
			}
		}
		if s.about == "" || s.lane == "" || s.usually == 0 || len(s.commands) == 0 {
			t.Errorf("%s lacks something: %+v", s.name, s)
		}
		seen[s.name] = true
	}
	for suite, names := range suites {
		if _, err := all.choose(names); err != nil {
			t.Errorf("suite %s: %v", suite, err)
		}
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	flows := goTestOf("sandbox", []string{"-vet=off", "-count=1", "-p=2", "-timeout=30m"}, []string{"./..."}, nil)
	sim := goTestOf("", []string{"-vet=off"}, []string{simPackage}, []string{"-seeds=2000"})
	for name, tc := range map[string]struct {
		command command
		pkg     string
		tests   []string
		want    string
	}{
		"a row of a table": {
			command: flows, pkg: module + "/sandbox/flow", tests: []string{"TestX/row_2"},
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test -C sandbox -timeout=30m ./flow -run '^TestX$/^row_2$' -count=1`,
		},
		"a name that the shell and regular expressions know": {
			command: flows, pkg: module + "/sandbox/flow", tests: []string{"TestX/it's_a(b)"},
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test -C sandbox -timeout=30m ./flow -run '^TestX$/^it'\''s_a\(b\)$' -count=1`,
		},
		"the race detector and its environment": {
			command: patterns{"./..."}.race(""), pkg: module + "/internal/store", tests: []string{"TestX"},
			want: `GOFLAGS=-trimpath CGO_ENABLED=1 go test -race ./internal/store -run '^TestX$' -count=1`,
		},
		"arguments of the tests": {
			command: sim, pkg: module + "/internal/sim", tests: []string{"TestSeeds/group_3"},
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test ./internal/sim -run '^TestSeeds$/^group_3$' -count=1 -seeds=2000`,
		},
		"any of several": {
			command: sim, pkg: module + "/internal/sim", tests: []string{"TestB/x", "TestA", "TestB/y"},
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test ./internal/sim -run '^(TestA|TestB)$' -count=1 -seeds=2000`,
		},
		"a package that does not build": {
			command: flows, pkg: module + "/sandbox/flow",
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test -C sandbox -timeout=30m ./flow -count=1`,
		},
		"a fuzz target": {
			command: fuzzCommands(survey{{dir: "internal/reqs", module: ".", fuzz: []string{"FuzzNew"}}}, time.Minute)[0], pkg: module + "/internal/reqs",
			want: `GOFLAGS=-trimpath CGO_ENABLED=0 go test '-run=^$' '-fuzz=^FuzzNew$' -fuzztime=1m0s -fuzzminimizetime=10x ./internal/reqs -count=1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.command.repeat(tc.command.relative(tc.pkg), tc.tests); got != tc.want {
				t.Errorf("repeat:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// With FRESH=1 no result comes from the cache, and what has a count keeps it.
func TestFreshStepsRunEveryTest(t *testing.T) {
	t.Parallel()
	for _, s := range steps(survey{{dir: "internal/a", module: ".", tests: true}, {dir: "sandbox/b", module: "sandbox", tests: true}}, settings{fresh: true, soak: 7}) {
		for i := range s.commands {
			test := s.commands[i].test
			if test == nil || strings.HasPrefix(strings.Join(test.flags, " "), "-vet=off -run=^$ -fuzz") {
				continue
			}
			want := "-count=1"
			if s.name == "soak" {
				want = "-count=7"
			}
			var counts []string
			for _, flag := range test.flags {
				if strings.HasPrefix(flag, "-count=") {
					counts = append(counts, flag)
				}
			}
			if !slices.Equal(counts, []string{want}) {
				t.Errorf("step %s runs go test with %v, want %s once", s.name, counts, want)
			}
		}
	}
}

// What is tested with programs and files that the cache does not know is keyed by the whole repository. How a person repeats
// it does not show that.
func TestCachedResultsAreOfThisRepository(t *testing.T) {
	t.Parallel()
	all := survey{{dir: "sandbox/b", module: "sandbox", tests: true, imports: map[string]bool{module + "/sandbox/controlplane": true}}}
	list := steps(all, settings{sources: "0123"})
	for _, name := range []string{"sandbox", "image"} {
		s, _ := list.find(name)
		for i := range s.commands {
			if c := &s.commands[i]; !slices.Contains(c.test.flags, "-skip=^sources 0123$") || strings.Contains(c.repeat("./b", nil), "0123") {
				t.Errorf("step %s: flags %q, repeated by %s", name, c.test.flags, c.repeat("./b", nil))
			}
		}
	}
}

// What a test prints about itself is a shorter way than to run it as it was run.
func TestRepeatWhatTheOutputSays(t *testing.T) {
	t.Parallel()
	prop := goTestOf("", nil, []string{"./..."}, []string{"-rapid.checks=10000"})
	fuzz := fuzzCommands(survey{{dir: "sandbox/awsemu", module: "sandbox", fuzz: []string{"FuzzRead"}}}, time.Minute)[0]
	for name, tc := range map[string]struct {
		command command
		pkg     string
		test    string
		line    string
		want    string
	}{
		"a property": {
			command: prop, pkg: "/internal/reqs", test: "TestX", line: `To reproduce, specify -run="TestX" -rapid.failfile="a" (or -rapid.seed=12)`,
			want: "GOFLAGS=-trimpath CGO_ENABLED=0 go test ./internal/reqs -run '^TestX$' -count=1 -rapid.seed=12",
		},
		"a simulated cluster": {
			command: prop, pkg: "/internal/sim", test: "TestSeeds/group_1", line: "    sim_test.go:75: replay with: go test ./internal/sim -run TestSeeds -seed=7 -v",
			want: "go test ./internal/sim -run TestSeeds -seed=7 -v",
		},
		"an input of a fuzz target": {
			command: fuzz, pkg: "/sandbox/awsemu", test: "FuzzRead", line: "    go test -run=FuzzRead/582528ddfad69eb5",
			want: "GOFLAGS=-trimpath CGO_ENABLED=0 go test -C sandbox ./awsemu -run '^FuzzRead$/^582528ddfad69eb5$' -count=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := failure{pkg: module + tc.pkg, tests: []string{tc.test}, lines: []string{"before", tc.line}}
			if got := tc.command.repeatFailure(&f); got != tc.want {
				t.Errorf("repeat:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}
