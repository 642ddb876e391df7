package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/convert"
)

type convertFlags struct {
	files     []string
	recursive bool
	output    string
	opts      convert.Options
}

func newConvert(s Streams) *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Rewrite old and sloppy manifests to strict v1",
		Long: "Rewrites v1alpha5 Provisioners and AWSNodeTemplates, v1beta1 and lenient v1 manifests to strict v1.\n" +
			"The result goes to standard output, warnings and errors to standard error. Documents of other\n" +
			"kinds pass through as they are. What the API server would refuse is an error; when any document\n" +
			"has one, nothing is written.\n\n" +
			"Convert a pool and its class together: kubelet settings move from the one to the other.",
		Example: "  # one file\n  dovetail convert -f provisioner.yaml > nodepool.yaml\n\n" +
			"  # a folder with its sub-folders; fail on anything unknown\n  dovetail convert -f manifests/ -R --strict\n\n" +
			"  # what is in the cluster now\n  kubectl get nodepools,ec2nodeclasses -o yaml | dovetail convert -f -",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConvert(contextOf(cmd.Context()), f, s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file, folder, or - for standard input; may be repeated")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "read sub-folders too")
	flags.StringVarP(&f.output, "output", "o", "yaml", "output format: yaml or json")
	flags.BoolVar(&f.opts.IgnoreDefaults, "ignore-defaults", false, "leave out the requirements that v1alpha5 added by itself")
	flags.StringVar(&f.opts.NodeRole, "node-role", convert.DefaultNodeRole, "IAM role of nodes whose AWSNodeTemplate names no instance profile")
	flags.BoolVar(&f.opts.Strict, "strict", false, "unknown kinds and fields are errors")
	return cmd
}

func runConvert(ctx context.Context, f *convertFlags, s Streams) error {
	if f.output != "yaml" && f.output != "json" {
		return usagef("--output %q is not known; want yaml or json", f.output)
	}
	if len(f.files) == 0 {
		return usagef("nothing to convert; name a file or folder with -f, or - for standard input")
	}
	sources, err := readSources(f, s.In)
	if err != nil {
		return err
	}
	if f.opts.Judge, err = admissionChecks(ctx); err != nil {
		return err
	}
	result := convert.Convert(sources, f.opts)
	for _, w := range result.Warnings {
		_, _ = fmt.Fprintln(s.Err, "warning:", w)
	}
	for _, e := range result.Errors {
		_, _ = fmt.Fprintln(s.Err, "error:", e)
	}
	if n := len(result.Errors); n > 0 {
		return fmt.Errorf("%d %s; nothing was written", n, plural(n, "error", "errors"))
	}
	if len(result.Documents) == 0 {
		_, _ = fmt.Fprintln(s.Err, "warning: the input holds no documents")
	}
	return writeDocuments(s.Out, result.Documents, f.output)
}

// admissionChecks returns what the API server would say to an object, with the CRDs of this build.
func admissionChecks(ctx context.Context) (func(map[string]any) []convert.Refusal, error) {
	server, err := admission.New()
	if err != nil {
		return nil, err
	}
	return func(object map[string]any) []convert.Refusal {
		var refusals []convert.Refusal
		for _, e := range server.Refusals(ctx, object) {
			refusals = append(refusals, convert.Refusal{Field: e.Field, Text: e.ErrorBody()})
		}
		return refusals
	}, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// writeDocuments writes all or, should one not render, nothing.
func writeDocuments(w io.Writer, docs []convert.Document, format string) error {
	var out bytes.Buffer
	for i, d := range docs {
		render := d.YAML
		if format == "json" {
			render = d.JSON
		}
		text, err := render()
		if err != nil {
			return err
		}
		if format == "yaml" && i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
		if !bytes.HasSuffix(text, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// readSources reads every file named by the flags.
func readSources(f *convertFlags, in io.Reader) ([]convert.Source, error) {
	var sources []convert.Source
	readStdin := false
	for _, name := range f.files {
		if name == "-" {
			if readStdin {
				continue
			}
			readStdin = true
			text, err := io.ReadAll(in)
			if err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
			sources = append(sources, convert.Source{Name: "standard input", Text: text})
			continue
		}
		paths, err := manifestFiles(name, f.recursive)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, convert.Source{Name: path, Text: text})
		}
	}
	return sources, nil
}

// manifestFiles lists what a name stands for: the file itself, or the manifests of a folder.
func manifestFiles(name string, recursive bool) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != name && (!recursive || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			paths = append(paths, path)
		}
		return nil
	})
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s holds no .yaml, .yml or .json files; sub-folders are read with -R", name)
	}
	return paths, err
}
