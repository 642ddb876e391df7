package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	missing := flag.String("missing", "", "file of known rule ids; print those that no test cites")
	flag.Parse()
	if err := run(os.Stdout, os.DirFS(*root), *missing); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root fs.FS, known string) error {
	found, err := collect(root)
	if err != nil {
		return err
	}
	printCited(out, found.cited)
	printExcepted(out, found)
	if known == "" {
		return nil
	}
	text, err := fs.ReadFile(root, known)
	if err != nil {
		return err
	}
	printMissing(out, found, strings.Fields(string(text)))
	return nil
}

func printCited(out io.Writer, cited map[string][]cite) {
	families := map[string]int{}
	for _, id := range slices.SortedFunc(maps.Keys(cited), compareIDs) {
		families[family(id)]++
		label := id
		for _, c := range cited[id] {
			fmt.Fprintf(out, "%-8s %s:%d %s\n", label, c.file, c.line, c.test)
			label = ""
		}
	}
	fmt.Fprintln(out, "\ncited, by family:")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		fmt.Fprintf(out, "%-8s %d\n", name, families[name])
	}
}

// printExcepted lists what cannot be tested, with the reason, unless another test shows it after all.
func printExcepted(out io.Writer, found *findings) {
	fmt.Fprintln(out, "\nnot testable here:")
	for _, id := range slices.SortedFunc(maps.Keys(found.excepted), compareIDs) {
		if c := found.excepted[id][0]; len(found.cited[id]) == 0 {
			fmt.Fprintf(out, "%-8s %s:%d %s\n", id, c.file, c.line, c.test)
		}
	}
}

func printMissing(out io.Writer, found *findings, known []string) {
	total, without := map[string]int{}, map[string][]string{}
	for _, id := range known {
		total[family(id)]++
		if len(found.cited[id]) == 0 && len(found.excepted[id]) == 0 {
			without[family(id)] = append(without[family(id)], id)
		}
	}
	fmt.Fprintln(out, "\nnot cited:")
	for _, name := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(out, "%-8s %d of %d: %s\n", name, len(without[name]), total[name], strings.Join(without[name], " "))
	}
	if strange := unknown(found.cited, known); len(strange) > 0 {
		fmt.Fprintf(out, "\ncited but unknown: %s\n", strings.Join(strange, " "))
	}
}

// unknown returns the cited ids that are not in the list although their family is: misspelt ones.
// Sections are not rules and are in no list.
func unknown(cited map[string][]cite, known []string) []string {
	families := map[string]bool{}
	for _, id := range known {
		families[family(id)] = true
	}
	var strange []string
	for _, id := range slices.SortedFunc(maps.Keys(cited), compareIDs) {
		section := strings.Contains(id, ".")
		if families[family(id)] && !section && !slices.Contains(known, id) {
			strange = append(strange, id)
		}
	}
	return strange
}
