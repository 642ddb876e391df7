package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What cannot be built is refused before anything is compiled or deleted.
func TestRefused(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "thesis.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no version":            {args: []string{"-commit", "c"}, want: "no version; give -version"},
		"no commit":             {args: []string{"-version", "1.0.0"}, want: "no commit; give -commit"},
		"no tag":                {args: []string{"-version", "1.0.0+dirty", "-commit", "c"}, want: `version "1.0.0+dirty" cannot be the tag of an image`},
		"not the repository":    {args: []string{"-root", ".", "-version", "1.0.0", "-commit", "c"}, want: ". is not the root of the repository"},
		"half a platform":       {args: []string{"-version", "1.0.0", "-commit", "c", "-platforms", "amd64"}, want: `platform "amd64" is malformed; give an operating system and an architecture`},
		"a directory of others": {args: []string{"-version", "1.0.0", "-commit", "c", "-o", taken}, want: "is there and is no OCI layout; give another directory"},
		"an argument":           {args: []string{"push"}, want: `"push" is no flag`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-root", root, "-o", filepath.Join(t.TempDir(), "image")}, tc.args...)
			if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(taken, "thesis.txt")); err != nil {
		t.Error(err)
	}
}

// The base has the platforms that are requested, in that order.
func TestBase(t *testing.T) {
	t.Parallel()
	index, err := newBase([]string{"linux/amd64", "linux/arm64"}, testOptions("", "").created)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, member := range manifest.Manifests {
		got = append(got, member.Platform.String())
	}
	if strings.Join(got, " ") != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %v", got)
	}
}
