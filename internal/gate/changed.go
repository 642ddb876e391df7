package main

import (
	"context"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// changed returns the packages of the root module that these files are part of, or all of them when a
// file says how all are linted.
func (s survey) changed(files []string) patterns {
	var list patterns
	for _, p := range s {
		if p.module == "." && slices.ContainsFunc(files, func(file string) bool { return path.Dir(file) == p.dir && strings.HasSuffix(file, ".go") }) {
			list = append(list, p.pattern())
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "tools/go.mod", ".golangci.yml"} {
		if slices.Contains(files, file) {
			return patterns{"./..."}
		}
	}
	return list
}

// changedFiles lists with git which files differ from where this branch left the main one, committed or not.
// Where there is no other branch, or no git, it is what is not committed, or nothing.
func changedFiles(ctx context.Context, root string) []string {
	git := func(args ...string) []string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return nil
		}
		return strings.Fields(string(out))
	}
	base := []string{"HEAD"}
	for _, main := range []string{"@{upstream}", "origin/HEAD", "main"} {
		if found := git("merge-base", "HEAD", main); len(found) == 1 {
			base = found
			break
		}
	}
	return append(git("diff", "--name-only", base[0]), git("ls-files", "--others", "--exclude-standard")...)
}
