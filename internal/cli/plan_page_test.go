package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// The commands of the page print what the page shows.
func TestWI_20_TheHowToPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/how-to/plan-a-live-cluster.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	cluster := snapshotFile(t, snapshottest.New(snapshottest.Options{Nodes: 4, Pending: 1, Huge: 1}))
	_, manifest, _ := strings.Cut(text, "```yaml\n")
	manifest, _, _ = strings.Cut(manifest, "```")
	deployment := filepath.Join(filepath.Dir(cluster), "deployment.yaml")
	if err := os.WriteFile(deployment, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	block, word := regexp.MustCompile("(?s)```console\n\\$ dovetail ([^\n]*)\n(.*?)```"), regexp.MustCompile(`'[^']*'|\S+`)
	blocks := 0
	got := block.ReplaceAllStringFunc(text, func(shown string) string {
		blocks++
		typed := block.FindStringSubmatch(shown)[1]
		var args []string
		for _, arg := range word.FindAllString(typed, -1) {
			args = append(args, strings.NewReplacer("'", "", "cluster.json", cluster, "deployment.yaml", deployment).Replace(arg))
		}
		_, stdout, stderr := run("", args...)
		return "```console\n$ dovetail " + typed + "\n" + stdout + stderr + "```"
	})
	if blocks != 4 {
		t.Errorf("the page has %d commands, want 4", blocks)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(text, got); d != "" {
		t.Errorf("%s (-page +commands):\n%s", page, d)
	}
}

// The examples of the reference are price files, and equal.
func TestWI_14_TheExamplesOfThePriceFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/price-file.md")
	if err != nil {
		t.Fatal(err)
	}
	var read []map[string]float64
	for _, example := range regexp.MustCompile("(?s)```(?:csv|yaml)\n(.*?)```").FindAllSubmatch(text, -1) {
		prices, err := snapshot.ReadPrices(example[1])
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, prices)
	}
	if len(read) != 2 || cmp.Diff(read[0], read[1]) != "" {
		t.Errorf("the examples differ: %v", read)
	}
}
