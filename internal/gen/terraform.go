package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hclBlock is a variable or an output of Terraform.
type hclBlock struct {
	kind, name string
	arguments  map[string]string // as written, on one line
}

// described are the configurations whose inputs and outputs the page lists.
func described() []struct{ dir, title, about string } {
	return []struct{ dir, title, about string }{
		{filepath.Join("terraform", "modules", "karpenter"), "The module", "[terraform/modules/karpenter](../../terraform/modules/karpenter) installs the controller in a cluster that exists."},
		{filepath.Join("terraform", "examples", "full-stack"), "The example full-stack", "[terraform/examples/full-stack](../../terraform/examples/full-stack) makes a cluster for it as well."},
	}
}

// terraformPage lists the inputs and outputs of the module and of the example with a cluster.
func terraformPage() (file, error) {
	var b strings.Builder
	b.WriteString(generatedNote + "# Terraform\n\nInputs and outputs, from `variables.tf` and `outputs.tf`. [install-terraform.md](../how-to/install-terraform.md) says how to use them. " +
		"An input that cannot be used is refused by `terraform plan`, with its value and what to write instead.\n")
	for _, c := range described() {
		inputs, err := readHCL(filepath.Join(c.dir, "variables.tf"))
		if err != nil {
			return file{}, err
		}
		outputs, err := readHCL(filepath.Join(c.dir, "outputs.tf"))
		if err != nil {
			return file{}, err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Input | Type | Default | Meaning |\n|---|---|---|---|\n", c.title, c.about)
		for _, v := range inputs {
			value := "required"
			if text, found := v.arguments["default"]; found {
				value = "`" + text + "`"
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", v.name, v.arguments["type"], value, v.meaning())
		}
		b.WriteString("\n| Output | Meaning |\n|---|---|\n")
		for _, o := range outputs {
			fmt.Fprintf(&b, "| `%s` | %s |\n", o.name, o.meaning())
		}
	}
	return file{filepath.Join("docs", "reference", "terraform.md"), []byte(b.String())}, nil
}

// meaning is the description as text of a table.
func (b hclBlock) meaning() string {
	return strings.NewReplacer(`\"`, `"`, "|", `\|`, "<", "&lt;").Replace(strings.Trim(b.arguments["description"], `"`))
}

var (
	blockStart = regexp.MustCompile(`^(variable|output) "([^"]+)" \{$`)
	argument   = regexp.MustCompile(`^  (\w+)\s+= (.*)$`)
)

// readHCL reads the variables and outputs of a file. It relies on the layout that `terraform fmt` makes, which the tests
// of the module hold, and so needs no parser of the language.
func readHCL(path string) ([]hclBlock, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var blocks []hclBlock
	last := "" // the argument that a line which is indented deeper belongs to
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := blockStart.FindStringSubmatch(line); m != nil {
			blocks = append(blocks, hclBlock{kind: m[1], name: m[2], arguments: map[string]string{}})
			last = ""
			continue
		}
		if len(blocks) == 0 || line == "" {
			continue
		}
		arguments := blocks[len(blocks)-1].arguments
		m := argument.FindStringSubmatch(line)
		switch {
		case m != nil:
			last = m[1]
			arguments[last] = m[2]
		case strings.HasPrefix(line, "  validation {"):
			last = ""
		case last != "" && strings.HasPrefix(line, "  "):
			arguments[last] = joinHCL(arguments[last], strings.Join(strings.Fields(line), " "))
		}
	}
	for _, b := range blocks {
		if b.arguments["description"] == "" || b.kind == "variable" && b.arguments["type"] == "" {
			return nil, fmt.Errorf("%s: %s %q has no description or no type", path, b.kind, b.name)
		}
	}
	return blocks, nil
}

// joinHCL puts a line behind those before it, as one would write it on a single line.
func joinHCL(before, line string) string {
	opens := strings.HasSuffix(before, "{") || strings.HasSuffix(before, "[") || strings.HasSuffix(before, "(")
	closes := strings.HasPrefix(line, "}") || strings.HasPrefix(line, "]") || strings.HasPrefix(line, ")")
	switch {
	case opens && strings.HasSuffix(before, "{"), closes && strings.HasPrefix(line, "}"):
		return before + " " + line
	case opens || closes:
		return before + line
	default:
		return before + ", " + line
	}
}
