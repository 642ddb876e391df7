package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// document is one YAML or JSON document of a source, or an item of a List.
type document struct {
	place
	text []byte         // as written
	tree map[string]any // nil for an empty document; numbers as json.Number
	raw  []byte         // tree as JSON
}

func (d *document) gvk() schema.GroupVersionKind {
	kind, _ := d.tree["kind"].(string)
	return schema.FromAPIVersionAndKind(d.apiVersion(), kind)
}

func (d *document) apiVersion() string {
	version, _ := d.tree["apiVersion"].(string)
	return version
}

func (d *document) object() string {
	meta, _ := d.tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return strings.TrimSpace(d.gvk().Kind + " " + name)
}

// read splits a source into documents. JSON sources hold one or more objects, YAML sources documents
// separated by ---. Lists are unfolded.
func read(src Source) ([]*document, []Finding) {
	if bytes.IndexByte(src.Text, 0) >= 0 {
		return nil, []Finding{{Source: src.Name, Text: "is not UTF-8 text; save it as UTF-8 (PowerShell: Out-File -Encoding utf8)"}}
	}
	text := bytes.TrimPrefix(src.Text, []byte("\ufeff"))
	// YAML may begin with a brace too, so what is no JSON gets its second chance.
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if docs, faults := readJSON(src.Name, text); len(faults) == 0 {
			return unfold(docs)
		}
	}
	docs, faults := readYAML(src.Name, text)
	docs, more := unfold(docs)
	return docs, append(faults, more...)
}

func readJSON(source string, text []byte) (docs []*document, faults []Finding) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, faults
		}
		end := int(decoder.InputOffset())
		line := 1 + bytes.Count(text[:end-len(raw)], []byte("\n"))
		if err != nil {
			// What follows a syntax error in a stream cannot be distinguished from it.
			return docs, append(faults, Finding{Source: source, Line: line, Text: "not JSON: " + err.Error()})
		}
		doc := &document{place: newPlace(source, line, raw), text: raw, raw: raw}
		if err := doc.parse(); err != nil {
			faults = append(faults, Finding{Source: source, Line: line, Text: err.Error()})
			continue
		}
		docs = append(docs, doc)
	}
}

func readYAML(source string, text []byte) (docs []*document, faults []Finding) {
	var part bytes.Buffer
	start, number := 1, 0
	flush := func(next int) {
		written := bytes.Clone(part.Bytes())
		doc := &document{place: newPlace(source, start, written), text: written}
		raw, err := yaml.YAMLToJSONStrict(written)
		if err == nil {
			doc.raw = raw
			err = doc.parse()
		}
		switch {
		case err != nil:
			faults = append(faults, Finding{Source: source, Line: start, Text: "cannot be read: " + strings.TrimPrefix(err.Error(), "yaml: ")})
		case doc.tree != nil:
			docs = append(docs, doc)
		}
		part.Reset()
		start = next
	}
	for line := range bytes.Lines(text) {
		number++
		rest, isMark := bytes.CutPrefix(line, []byte("---"))
		isMark = isMark && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t')
		switch {
		case isMark:
			flush(number + 1)
			if content := bytes.TrimSpace(rest); len(content) > 0 && content[0] != '#' {
				part.Write(rest) // content may follow the mark on its line
				start = number
			}
		case bytes.Equal(bytes.TrimSpace(line), []byte("...")) && line[0] == '.':
			flush(number + 1) // the end of a document; another may follow without a mark
		default:
			part.Write(line)
		}
	}
	flush(number)
	return docs, faults
}

// parse fills the tree from the JSON. Members that are null are left out, as the API server leaves
// them out: null is not zero.
func (d *document) parse() error {
	var whole any
	doubts, err := kjson.UnmarshalStrict(d.raw, &whole)
	if err != nil {
		return err
	}
	if len(doubts) > 0 {
		return doubts[0]
	}
	tree, err := decodeNumbers(d.raw)
	if err != nil {
		return err
	}
	switch tree := tree.(type) {
	case nil:
		return nil
	case map[string]any:
		dropNulls(tree)
		d.tree = tree
		d.raw, err = json.Marshal(tree)
		return err
	default:
		return errors.New("it is not a Kubernetes object, which has apiVersion and kind")
	}
}

// decodeNumbers reads JSON with numbers as written: through float64, large ones would lose digits.
func decodeNumbers(raw []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

func dropNulls(node any) {
	switch node := node.(type) {
	case map[string]any:
		// any order: each is independent of the others
		for name, inner := range node {
			if inner == nil {
				delete(node, name)
				continue
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range node {
			dropNulls(inner)
		}
	}
}

// unfold replaces Lists by their items, also Lists in Lists.
func unfold(docs []*document) (out []*document, faults []Finding) {
	for _, d := range docs {
		items, hasItems := d.tree["items"].([]any)
		if !hasItems || !isList(d.gvk()) {
			out = append(out, d)
			continue
		}
		for i, item := range items {
			tree, isObject := item.(map[string]any)
			if !isObject {
				faults = append(faults, d.finding("items["+strconv.Itoa(i)+"]", "is not an object"))
				continue
			}
			inner, err := d.item(i, tree)
			if err != nil {
				faults = append(faults, d.finding("items["+strconv.Itoa(i)+"]", "cannot be read: "+err.Error()))
				continue
			}
			unfolded, more := unfold([]*document{inner})
			out, faults = append(out, unfolded...), append(faults, more...)
		}
	}
	return out, faults
}

// item makes a document of one item of a List.
func (d *document) item(i int, tree map[string]any) (*document, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return nil, fmt.Errorf("as YAML: %w", err)
	}
	return &document{place: d.below("items[" + strconv.Itoa(i) + "]"), text: text, tree: tree, raw: raw}, nil
}

// isList knows v1 List and the lists of the kinds that are converted.
func isList(gvk schema.GroupVersionKind) bool {
	if gvk.Kind == "List" {
		return gvk.Group == "" && gvk.Version == "v1"
	}
	ours := gvk.Group == karpv1.Group || gvk.Group == awsv1.Group || gvk.Group == bufferGroup
	return ours && strings.HasSuffix(gvk.Kind, "List")
}
