package convert

import (
	"strconv"
	"strings"
	"sync"

	yamlnode "go.yaml.in/yaml/v3"
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

// place knows on which line of its source a field of a document stands.
type place struct {
	source string
	line   int // where the text starts
	root   func() *yamlnode.Node
	prefix string // path of the document in that text, such as items[3]
}

// newPlace parses the text when the first line is requested, and only then.
func newPlace(source string, line int, text []byte) place {
	return place{source: source, line: line, root: sync.OnceValue(func() *yamlnode.Node {
		var root yamlnode.Node
		if err := yamlnode.Unmarshal(text, &root); err != nil || len(root.Content) == 0 {
			return nil
		}
		return root.Content[0]
	})}
}

// below returns the place of a part of the document.
func (p place) below(path string) place {
	p.prefix = strings.TrimPrefix(p.prefix+"."+path, ".")
	return p
}

// lineOf finds the line of a field such as spec.template.spec.requirements[1].key, or of the nearest
// parent that the document has.
func (p place) lineOf(field string) int {
	node := p.root()
	if node == nil {
		return p.line
	}
	line := node.Line
	path := strings.FieldsFunc(p.prefix+"."+field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	for len(path) > 0 {
		next, at, used := child(node, path)
		if next == nil {
			break
		}
		node, line, path = next, at, path[used:]
	}
	return p.line + line - 1
}

// child returns the member or element that the path begins with, the line it stands on, and how many
// steps it took: names of members may hold dots.
func child(node *yamlnode.Node, path []string) (next *yamlnode.Node, line, used int) {
	switch node.Kind {
	case yamlnode.MappingNode:
		for used = 1; used <= len(path); used++ {
			name := strings.Join(path[:used], ".")
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == name {
					return node.Content[i+1], node.Content[i].Line, used
				}
			}
		}
	case yamlnode.SequenceNode:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line, 1
		}
	case yamlnode.AliasNode:
		return child(node.Alias, path)
	case yamlnode.DocumentNode, yamlnode.ScalarNode:
	}
	return nil, 0, 0
}

func (d *document) finding(field, text string) Finding {
	line := d.lineOf(field)
	if field != "" {
		text = field + ": " + text
	}
	return Finding{Source: d.source, Line: line, Object: d.object(), Text: text}
}
