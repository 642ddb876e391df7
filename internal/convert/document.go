package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Source is one file, or standard input, to be converted.
type Source struct {
	Name string
	Text []byte
}

// Finding is something the user should know about one document.
type Finding struct {
	Source string
	Line   int    // 0 when not known
	Object string // "NodePool default"; empty when the document could not be read
	Text   string
}

// String renders the finding as file:line: object: text.
func (f Finding) String() string {
	place := f.Source
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	if f.Object == "" {
		return place + ": " + f.Text
	}
	return place + ": " + f.Object + ": " + f.Text
}

// document is one YAML or JSON document of a source.
type document struct {
	source string
	line   int            // where it starts
	text   []byte         // as written
	tree   map[string]any // nil for an empty document
	raw    []byte         // tree as JSON
}

func (d *document) gvk() schema.GroupVersionKind {
	version, _ := d.tree["apiVersion"].(string)
	kind, _ := d.tree["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

func (d *document) object() string {
	meta, _ := d.tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return strings.TrimSpace(d.gvk().Kind + " " + name)
}

func (d *document) finding(field, text string) Finding {
	if field != "" {
		text = field + ": " + text
	}
	return Finding{Source: d.source, Line: d.lineOf(field), Object: d.object(), Text: text}
}

// lineOf finds the line of a field such as spec.template.spec.requirements[1].key, or of the nearest
// parent that the document has.
func (d *document) lineOf(field string) int {
	var root yamlnode.Node
	if err := yamlnode.Unmarshal(d.text, &root); err != nil || len(root.Content) == 0 {
		return d.line
	}
	node, line := root.Content[0], root.Content[0].Line
	path := strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	for _, step := range path {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return d.line + line - 1
}

// child returns the member or element that step names, and the line it stands on.
func child(node *yamlnode.Node, step string) (*yamlnode.Node, int) {
	switch node.Kind {
	case yamlnode.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yamlnode.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	case yamlnode.AliasNode:
		return child(node.Alias, step)
	case yamlnode.DocumentNode, yamlnode.ScalarNode:
	}
	return nil, 0
}

// read splits a source into documents. JSON sources hold one or more objects, YAML sources documents
// separated by ---. Lists of kind List are unfolded.
func read(src Source) ([]*document, []Finding) {
	text := bytes.TrimPrefix(src.Text, []byte("\ufeff"))
	// YAML may begin with a brace too, so what is no JSON gets its second chance.
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if docs, faults := readJSON(src.Name, text); len(faults) == 0 {
			return unfold(docs), nil
		}
	}
	docs, faults := readYAML(src.Name, text)
	return unfold(docs), faults
}

func readJSON(source string, text []byte) (docs []*document, faults []Finding) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		start := int(decoder.InputOffset())
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, faults
		}
		line := 1 + bytes.Count(text[:start], []byte("\n"))
		if err != nil {
			// What follows a syntax error in a stream cannot be told apart from it.
			return docs, append(faults, Finding{Source: source, Line: line, Text: "not JSON: " + err.Error()})
		}
		lead := bytes.Count(text[start:int(decoder.InputOffset())-len(raw)], []byte("\n"))
		doc, err := newDocument(source, line+lead, raw)
		if err != nil {
			faults = append(faults, Finding{Source: source, Line: line + lead, Text: err.Error()})
			continue
		}
		docs = append(docs, doc)
	}
}

func readYAML(source string, text []byte) (docs []*document, faults []Finding) {
	var part bytes.Buffer
	start, number := 1, 0
	flush := func(next int) {
		doc, err := newDocument(source, start, bytes.Clone(part.Bytes()))
		switch {
		case err != nil:
			faults = append(faults, Finding{Source: source, Line: start, Text: err.Error()})
		case doc.tree != nil:
			docs = append(docs, doc)
		}
		part.Reset()
		start = next
	}
	for line := range bytes.Lines(text) {
		number++
		if rest, isMark := bytes.CutPrefix(line, []byte("---")); isMark && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			flush(number + 1)
			if content := bytes.TrimSpace(rest); len(content) > 0 && content[0] != '#' {
				part.Write(rest) // content may follow the mark on its line
				start = number
			}
			continue
		}
		part.Write(line)
	}
	flush(number)
	return docs, faults
}

// newDocument parses one document the way kubectl does.
func newDocument(source string, line int, text []byte) (*document, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	d := &document{source: source, line: line, text: text, raw: raw}
	switch tree := tree.(type) {
	case nil:
	case map[string]any:
		d.tree = tree
	default:
		return nil, errors.New("is not a Kubernetes object; it needs apiVersion and kind")
	}
	return d, nil
}

// unfold replaces a List by its items.
func unfold(docs []*document) []*document {
	var out []*document
	for _, d := range docs {
		items, isList := d.tree["items"].([]any)
		if !isList || !strings.HasSuffix(d.gvk().Kind, "List") {
			out = append(out, d)
			continue
		}
		for _, item := range items {
			raw, err := json.Marshal(item)
			tree, isObject := item.(map[string]any)
			if err != nil || !isObject {
				continue
			}
			text, err := yaml.JSONToYAML(raw)
			if err != nil {
				text = raw
			}
			out = append(out, &document{source: d.source, line: d.line, text: text, tree: tree, raw: raw})
		}
	}
	return out
}
