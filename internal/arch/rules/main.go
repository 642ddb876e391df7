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
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: rules [-root DIR] [ID ...]\n\nWithout an id: which tests cite which rules, and the rules without one. With ids: what each demands, and its tests.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(os.Stdout, os.DirFS(*root), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root fs.FS, ids []string) error {
	book, err := readBook(root)
	if err != nil {
		return err
	}
	found, err := collect(root)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		return printRules(out, book, found, ids)
	}
	printCited(out, found.cited)
	printExcepted(out, found)
	printMissing(out, found, book)
	return nil
}

// printRules shows what rules demand and where they are tested.
func printRules(out io.Writer, book []rule, found *findings, ids []string) error {
	for _, id := range ids {
		at := slices.IndexFunc(book, func(r rule) bool { return r.id == id })
		if at < 0 {
			return fmt.Errorf("there is no rule %s in %s", id, bookDir)
		}
		fmt.Fprintf(out, "%s  %s\n", id, book[at].demand)
		for _, c := range found.cited[id] {
			fmt.Fprintf(out, "    %s:%d %s\n", c.file, c.line, c.test)
		}
		for _, c := range found.excepted[id] {
			fmt.Fprintf(out, "    cannot be tested here: %s\n", c.test)
		}
	}
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

func printMissing(out io.Writer, found *findings, book []rule) {
	total, without := map[string]int{}, map[string][]string{}
	for _, r := range book {
		total[family(r.id)]++
	}
	for _, r := range untested(found, book) {
		without[family(r.id)] = append(without[family(r.id)], r.id)
	}
	fmt.Fprintln(out, "\nnot built yet:")
	for _, r := range book {
		if strings.HasPrefix(r.demand, notBuilt) {
			fmt.Fprintf(out, "%-8s %s:%d\n", r.id, r.file, r.line)
		}
	}
	fmt.Fprintln(out, "\nnot cited:")
	for _, name := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(out, "%-8s %d of %d: %s\n", name, len(without[name]), total[name], strings.Join(without[name], " "))
	}
	if strange := unknown(found.cited, book); len(strange) > 0 {
		fmt.Fprintf(out, "\ncited but unknown: %s\n", strings.Join(strange, " "))
	}
}

// untested returns the rules that no test cites and no exception names, of those whose features exist.
func untested(found *findings, book []rule) []rule {
	var without []rule
	for _, r := range book {
		if len(found.cited[r.id]) == 0 && len(found.excepted[r.id]) == 0 && !strings.HasPrefix(r.demand, notBuilt) {
			without = append(without, r)
		}
	}
	return without
}

// unknown returns the cited ids that are not in the rule book although their family is: misspelt ones.
// Sections are not rules and are not in it.
func unknown(cited map[string][]cite, book []rule) []string {
	families, known := map[string]bool{}, map[string]bool{}
	for _, r := range book {
		families[family(r.id)], known[r.id] = true, true
	}
	var strange []string
	for _, id := range slices.SortedFunc(maps.Keys(cited), compareIDs) {
		section := strings.Contains(id, ".")
		if families[family(id)] && !section && !known[id] {
			strange = append(strange, id)
		}
	}
	return strange
}
