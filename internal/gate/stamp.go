package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Go's test cache knows a file that a test read by its size and its time of modification, and git gives every file of a
// new clone the time of the checkout. So the gate gives each file that is as git has it a time that follows from its
// content: results of tests whose inputs another clone had too are found. Files with uncommitted changes are left alone.

// comparedByMake are the prerequisites of a rule of the Makefile: it builds the tools again when one is newer than they are,
// and no test reads them.
var comparedByMake = []string{"tools/go.mod", "tools/go.sum"}

// stampTime is a time of modification that follows from a digest: some second of the years 2000 to 2015.
func stampTime(digest []byte) time.Time {
	var eight [8]byte
	copy(eight[:], digest)
	const years = 15 * 365 * 24 * 60 * 60
	return time.Unix(946684800+int64(binary.BigEndian.Uint64(eight[:])%years), 0)
}

// stamps returns the times of files and of the folders they are in. The entries are those of git ls-files --stage -z; a
// folder's time follows from the names and contents below it.
func stamps(entries []byte, changed map[string]bool) map[string]time.Time {
	times := map[string]time.Time{}
	folders := map[string][]string{}
	for entry := range bytes.SplitSeq(entries, []byte{0}) {
		about, name, found := strings.Cut(string(entry), "\t")
		fields := strings.Fields(about)
		if !found || len(fields) < 2 {
			continue
		}
		digest, err := hex.DecodeString(fields[1])
		if err != nil {
			continue
		}
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			folders[dir] = append(folders[dir], name+" "+fields[1])
			if dir == "." {
				break
			}
		}
		if isLink := fields[0] == "120000"; !isLink && !changed[name] && !slices.Contains(comparedByMake, name) {
			times[name] = stampTime(digest)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		sum := fnv.New64a()
		sum.Write([]byte(strings.Join(folders[dir], "\n")))
		times[dir] = stampTime(sum.Sum(nil))
	}
	return times
}

// stampFiles does so in a checkout. Where there is no git, or a file cannot be touched, tests only run more often.
func stampFiles(ctx context.Context, root string) {
	git := func(args ...string) []byte {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return nil
		}
		return out
	}
	changed := map[string]bool{}
	for name := range strings.SplitSeq(string(git("diff", "--name-only", "-z", "--no-ext-diff")), "\x00") {
		changed[name] = true
	}
	times := stamps(git("ls-files", "--stage", "-z"), changed)
	// Folders last and deepest first: nothing below them is written afterwards.
	names := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		file := filepath.Join(root, name)
		if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink == 0 && !info.ModTime().Equal(times[name]) {
			_ = os.Chtimes(file, time.Time{}, times[name]) // see above
		}
	}
}
