package convert

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Document is one document of the output.
type Document struct {
	tree map[string]any
	text []byte // set when the document is passed through as written
}

// YAML renders the document, without a separator.
func (d Document) YAML() ([]byte, error) {
	if d.text != nil {
		return d.text, nil
	}
	return yaml.Marshal(d.tree)
}

// JSON renders the document on several lines.
func (d Document) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(d.tree, "", "  ")
	return append(text, '\n'), err
}

// render turns an entry into what is written: apiVersion, kind, metadata and spec, nothing else.
func (e *entry) render() (Document, error) {
	var meta metav1.ObjectMeta
	var apiVersion, kind string
	var spec any
	switch {
	case e.pool != nil:
		apiVersion, kind, meta, spec = karpv1.GroupVersion().String(), "NodePool", e.pool.ObjectMeta, e.pool.Spec
	case e.claim != nil:
		apiVersion, kind, meta, spec = karpv1.GroupVersion().String(), "NodeClaim", e.claim.ObjectMeta, e.claim.Spec
	case e.class != nil:
		apiVersion, kind, meta, spec = awsv1.GroupVersion().String(), awsv1.Kind, e.class.ObjectMeta, e.class.Spec
	default:
		return e.passThrough(), nil
	}
	specTree, err := tree(spec)
	if err != nil {
		return Document{}, fmt.Errorf("cannot be written: %w", err)
	}
	// any order: each path is written once
	for path, text := range e.spelling {
		respell(specTree, strings.Split(path, "\x00"), text)
	}
	metaTree := map[string]any{"name": meta.Name}
	if len(meta.Labels) > 0 {
		metaTree["labels"] = meta.Labels
	}
	if len(meta.Annotations) > 0 {
		metaTree["annotations"] = meta.Annotations
	}
	return Document{tree: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metaTree, "spec": specTree}}, nil
}

// passThrough keeps the text as written, comments included, unless something in it has to change: the
// version, or what the server set on an object of ours.
func (e *entry) passThrough() Document {
	doc := Document{tree: e.doc.tree, text: e.doc.text}
	if !e.known {
		return doc
	}
	if e.apiVersion != "" && e.apiVersion != e.doc.apiVersion() {
		doc.text = nil
		doc.tree["apiVersion"] = e.apiVersion
	}
	if _, there := doc.tree["status"]; there {
		doc.text = nil
		delete(doc.tree, "status")
	}
	meta, _ := doc.tree["metadata"].(map[string]any)
	// any order: each is independent of the others
	for name := range meta {
		switch name {
		case "name", "namespace", "labels", "annotations":
		default:
			doc.text = nil
			delete(meta, name)
		}
	}
	return doc
}

func tree(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeNumbers(text)
	out, _ := decoded.(map[string]any)
	return out, err
}

// limitSpelling keeps the limits as written: 1000 must not come back as 1k.
func limitSpelling(d *document, path ...string) map[string]string {
	spelling := map[string]string{}
	node, _ := d.tree["spec"].(map[string]any)
	for _, step := range path {
		node, _ = node[step].(map[string]any)
	}
	// any order: each name has an entry of its own
	for name, value := range node {
		if text, isScalar := scalar(value); isScalar {
			spelling["limits\x00"+name] = text
		}
	}
	return spelling
}

// volumeSpelling keeps the sizes of disks as written.
func volumeSpelling(d *document) map[string]string {
	spelling := map[string]string{}
	spec, _ := d.tree["spec"].(map[string]any)
	mappings, _ := spec["blockDeviceMappings"].([]any)
	for i, m := range mappings {
		mapping, _ := m.(map[string]any)
		ebs, _ := mapping["ebs"].(map[string]any)
		if text, isScalar := scalar(ebs["volumeSize"]); isScalar {
			spelling["blockDeviceMappings\x00"+strconv.Itoa(i)+"\x00ebs\x00volumeSize"] = text
		}
	}
	return spelling
}

// scalar returns the text of a quantity, which YAML reads as a string or a number.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	default:
		return "", false
	}
}

// respell replaces a value that is there by another text for it.
func respell(node any, path []string, text string) {
	for i, step := range path {
		last := i == len(path)-1
		switch inner := node.(type) {
		case map[string]any:
			if _, there := inner[step]; there && last {
				inner[step] = text
				return
			}
			node = inner[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(inner) {
				return
			}
			node = inner[n]
		default:
			return
		}
	}
}
