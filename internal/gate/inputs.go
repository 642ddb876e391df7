package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// recordFile says over which inputs each step that names its inputs passed last. It is committed: a clone runs such a
// step only when something that the step is about has changed since.
const recordFile = "internal/gate/passed.txt"

// sourcesVariable passes to tests on control planes, as an environment variable, what the repository consists of: while that is
// the same, they need not check with the go command whether a program that they built is fresh.
const sourcesVariable = "DOVETAIL_SOURCES"

// keyed is a flag that makes results in Go's test cache depend on the repository as a whole. For tests that build programs
// or read files outside of their module, the cache knows too little. it uses the flags of a test, and this one skips
// tests of a name that none has.
func (o settings) keyed() string { return "-skip=^sources " + o.sources + "$" }

// sourcesDigest is the digest of all that tests on control planes may see: everything but what only other tests, the gate
// and people read. A package's own tests are known to the cache.
func sourcesDigest(root fs.FS) (string, error) {
	return digestOf(root, []string{"."}, func(name string) bool {
		return strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(seenByOthers, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

var seenByOthers = []string{"CHANGELOG.md", "CONTRIBUTING.md", "bench/", "docs/decisions/", "internal/arch/", "internal/gate/"}

// digest is one of the names and contents of all files below some paths. Hidden files and build output are no inputs.
func digest(root fs.FS, inputs []string) (string, error) {
	return digestOf(root, inputs, func(string) bool { return false })
}

func digestOf(root fs.FS, inputs []string, leaveOut func(name string) bool) (string, error) {
	sum := sha256.New()
	for _, input := range inputs {
		err := fs.WalkDir(root, input, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && name != input && (notOurs(name) && path.Base(name) != "testdata"):
				return fs.SkipDir
			case entry.IsDir() || strings.HasPrefix(path.Base(name), ".") || leaveOut(name):
				return nil
			}
			content, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(content))
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:32], nil
}

// readRecord returns the digests of the inputs over which steps passed. Without the file every step runs.
func readRecord(root fs.FS) (map[string]string, error) {
	record := map[string]string{}
	text, err := fs.ReadFile(root, recordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	for line := range strings.Lines(string(text)) {
		if name, digest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(name, "#") {
			record[name] = digest
		}
	}
	return record, err
}

const recordHeader = `# The inputs over which these steps passed last; make test runs a step again when its inputs differ, and writes this file.
`

func writeRecord(file string, record map[string]string) error {
	var text strings.Builder
	text.WriteString(recordHeader)
	for _, name := range slices.Sorted(maps.Keys(record)) {
		fmt.Fprintf(&text, "%s %s\n", name, record[name])
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// digests returns the digest of the inputs of each step that names some.
func digests(root fs.FS, steps []step) (map[string]string, error) {
	found := map[string]string{}
	for _, s := range steps {
		if len(s.inputs) == 0 {
			continue
		}
		var err error
		if found[s.name], err = digest(root, s.inputs); err != nil {
			return nil, fmt.Errorf("inputs of step %s: %w", s.name, err)
		}
	}
	return found, nil
}

// recorded is the record after a run: the steps that passed did so over the inputs they had when the run began.
func recorded(before, inputs map[string]string, states map[string]state) map[string]string {
	after := maps.Clone(before)
	for name, digest := range inputs {
		if states[name] == passed {
			after[name] = digest
		}
	}
	return after
}

func recordAndInputs(root fs.FS, steps []step) (record, inputs map[string]string, err error) {
	if record, err = readRecord(root); err != nil {
		return nil, nil, err
	}
	inputs, err = digests(root, steps)
	return record, inputs, err
}
