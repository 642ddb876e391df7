// Command gen writes what is derived from the Go types: the CRDs in api/crds and in the charts, the pages under
// docs/reference, and the dashboards. It copies the IAM policies to the Terraform module and the rules for Prometheus to the
// chart, and lists the inputs of the charts and of the module. With -check it writes nothing and fails when a file is stale.
//
// Not here: deepcopy functions, which controller-gen writes by itself (make generate).
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is one generated file, by its path from the root of the repository.
type file struct {
	path    string
	content []byte
}

func main() {
	check := flag.Bool("check", false, "write nothing; fail when a generated file is stale")
	controllerGen := flag.String("controller-gen", "bin/tools/controller-gen", "controller-gen binary")
	flag.Parse()
	if err := run(context.Background(), *controllerGen, *check, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, controllerGen string, check bool, out io.Writer) error {
	crds, err := buildCRDs(ctx, controllerGen)
	if err != nil {
		return err
	}
	files := make([]file, 0, len(crds)*4+4)
	for _, crd := range crds {
		text, err := encodeCRD(crd)
		if err != nil {
			return err
		}
		files = append(files, file{filepath.Join("api", "crds", crdFileName(crd)), text}, crdPage(crd))
		files = append(files, chartCRDs(crdFileName(crd), text)...)
	}
	files = append(files, reasonsPage(), settingsPage(), metricsPage(), eventsPage(), conditionsPage(), iamPage(), rbacPage())
	files = append(files, cliPages()...)
	files = append(files, moduleFiles()...)
	charts, err := chartFiles()
	if err != nil {
		return err
	}
	files = append(files, charts...)
	observed, err := observabilityFiles()
	if err != nil {
		return err
	}
	files = append(files, observed...)
	inputs, err := terraformPage()
	if err != nil {
		return err
	}
	files = append(files, inputs)
	if check {
		return checkFiles(files, out)
	}
	return writeFiles(files)
}

// ownedDirs hold generated files only, so a file there that nothing generates any more is stale too.
func ownedDirs() []string {
	return []string{
		filepath.Join("api", "crds"), filepath.Join("charts", "karpenter", "crds"), filepath.Join("charts", "karpenter-crd", "templates"),
		filepath.Join("docs", "reference", "api"), filepath.Join("docs", "reference", "cli"),
		dashboards(), chartDashboards(), chartRules(),
		modulePolicies(), filepath.Join(modulePolicies(), "trust"), filepath.Join(modulePolicies(), "event-rules"),
	}
}

// leftovers lists generated files that exist and should not.
func leftovers(files []file) ([]string, error) {
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.path] = true
	}
	var left []string
	for _, dir := range ownedDirs() {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if !wanted[path] && !e.IsDir() && !strings.HasSuffix(path, ".go") {
				left = append(left, path)
			}
		}
	}
	return left, nil
}

func checkFiles(files []file, out io.Writer) error {
	stale, err := leftovers(files)
	if err != nil {
		return err
	}
	for _, f := range files {
		have, err := os.ReadFile(f.path)
		if err != nil || !bytes.Equal(have, f.content) {
			stale = append(stale, f.path)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	for _, path := range stale {
		if _, err := fmt.Fprintln(out, "stale:", path); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d generated files are stale; run: make generate", len(stale))
}

func writeFiles(files []file) error {
	left, err := leftovers(files)
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.path, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
