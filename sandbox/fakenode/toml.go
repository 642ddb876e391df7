package fakenode

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlDepth limits how far values nest, so that no document exhausts the stack.
const tomlDepth = 32

// toml reads the part of TOML that settings are written in: tables, arrays of tables, dotted and quoted
// keys, all four kinds of strings, numbers, booleans, arrays and inline tables. Dates become strings.
// No TOML library is among the dependencies of this module.
type toml struct {
	text  string
	at    int
	depth int
}

func parseTOML(text string) (map[string]any, error) {
	p := &toml{text: strings.ReplaceAll(text, "\r\n", "\n")}
	root := map[string]any{}
	table := root
	for {
		p.skipSpace(true)
		if p.at == len(p.text) {
			return root, nil
		}
		var err error
		if p.peekByte() == '[' {
			table, err = p.readHeader(root)
		} else {
			err = p.readAssignment(table)
		}
		if err == nil {
			err = p.endOfLine()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", 1+strings.Count(p.text[:p.at], "\n"), err)
		}
	}
}

func (p *toml) peekByte() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *toml) acceptToken(token string) bool {
	if strings.HasPrefix(p.text[p.at:], token) {
		p.at += len(token)
		return true
	}
	return false
}

func (p *toml) skipSpace(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || lines && c == '\n':
			p.at++
		case c == '#' && lines:
			p.skipComment()
		default:
			return
		}
	}
}

func (p *toml) skipComment() {
	if n := strings.IndexByte(p.text[p.at:], '\n'); n >= 0 {
		p.at += n
	} else {
		p.at = len(p.text)
	}
}

func (p *toml) endOfLine() error {
	p.skipSpace(false)
	if p.peekByte() == '#' {
		p.skipComment()
	}
	if p.at < len(p.text) && p.text[p.at] != '\n' {
		return fmt.Errorf("%q where the line should end", p.peekByte())
	}
	return nil
}

// readHeader reads [a.b] or [[a.b]] and returns the table it opens.
func (p *toml) readHeader(root map[string]any) (map[string]any, error) {
	p.at++
	list := p.acceptToken("[")
	path, err := p.key()
	if err != nil {
		return nil, err
	}
	if !p.acceptToken("]") || list && !p.acceptToken("]") {
		return nil, fmt.Errorf("table %s is not closed", strings.Join(path, "."))
	}
	if !list {
		return descendTable(root, path)
	}
	last := len(path) - 1
	parent, err := descendTable(root, path[:last])
	if err != nil {
		return nil, err
	}
	tables, ok := parent[path[last]].([]any)
	if !ok && parent[path[last]] != nil {
		return nil, fmt.Errorf("%s is no array of tables", strings.Join(path, "."))
	}
	table := map[string]any{}
	parent[path[last]] = append(tables, table)
	return table, nil
}

func descendTable(table map[string]any, path []string) (map[string]any, error) {
	for _, key := range path {
		switch v := table[key].(type) {
		case nil:
			next := map[string]any{}
			table[key] = next
			table = next
		case map[string]any:
			table = v
		case []any:
			next, ok := map[string]any(nil), false
			if len(v) > 0 {
				next, ok = v[len(v)-1].(map[string]any)
			}
			if !ok {
				return nil, fmt.Errorf("%s is no table", key)
			}
			table = next
		default:
			return nil, fmt.Errorf("%s is no table", key)
		}
	}
	return table, nil
}

func (p *toml) readAssignment(table map[string]any) error {
	path, err := p.key()
	if err != nil {
		return err
	}
	if !p.acceptToken("=") {
		return fmt.Errorf("no value for %s", strings.Join(path, "."))
	}
	value, err := p.value()
	if err != nil {
		return err
	}
	last := len(path) - 1
	parent, err := descendTable(table, path[:last])
	if err != nil {
		return err
	}
	if _, there := parent[path[last]]; there {
		return fmt.Errorf("%s is given twice", strings.Join(path, "."))
	}
	parent[path[last]] = value
	return nil
}

// key reads a dotted key and the space after it.
func (p *toml) key() ([]string, error) {
	var path []string
	for {
		p.skipSpace(false)
		var part string
		if c := p.peekByte(); c == '"' || c == '\'' {
			var err error
			if part, err = p.readString(); err != nil {
				return nil, err
			}
		} else {
			start := p.at
			for p.at < len(p.text) && isBare(p.text[p.at]) {
				p.at++
			}
			if part = p.text[start:p.at]; part == "" {
				return nil, fmt.Errorf("%q where a key should be", p.peekByte())
			}
		}
		path = append(path, part)
		if len(path) > tomlDepth {
			return nil, fmt.Errorf("a key of more than %d parts", tomlDepth)
		}
		p.skipSpace(false)
		if !p.acceptToken(".") {
			return path, nil
		}
	}
}

func isBare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func (p *toml) value() (any, error) {
	if p.depth++; p.depth > tomlDepth {
		return nil, fmt.Errorf("values nest deeper than %d", tomlDepth)
	}
	defer func() { p.depth-- }()
	p.skipSpace(false)
	switch p.peekByte() {
	case '"', '\'':
		return p.readString()
	case '[':
		return p.readArray()
	case '{':
		return p.inlineTable()
	}
	start := p.at
	for p.at < len(p.text) && !strings.ContainsRune(",]}\n# \t", rune(p.text[p.at])) {
		p.at++
	}
	token := p.text[start:p.at]
	if token == "true" || token == "false" {
		return token == "true", nil
	}
	digits := strings.ReplaceAll(token, "_", "")
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(digits, 64); err == nil {
		return f, nil
	}
	if token != "" && token[0] >= '0' && token[0] <= '9' && strings.ContainsAny(token, "-:") {
		return token, nil // a date or a time
	}
	return nil, fmt.Errorf("%q is no value", token)
}

func (p *toml) readArray() (any, error) {
	p.at++
	list := []any{}
	for {
		p.skipSpace(true)
		if p.acceptToken("]") {
			return list, nil
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		p.skipSpace(true)
		if !p.acceptToken(",") && p.peekByte() != ']' {
			return nil, fmt.Errorf("an array is not closed")
		}
	}
}

func (p *toml) inlineTable() (any, error) {
	p.at++
	table := map[string]any{}
	p.skipSpace(false)
	if p.acceptToken("}") {
		return table, nil
	}
	for {
		if err := p.readAssignment(table); err != nil {
			return nil, err
		}
		p.skipSpace(false)
		if p.acceptToken("}") {
			return table, nil
		}
		if !p.acceptToken(",") {
			return nil, fmt.Errorf("an inline table is not closed")
		}
	}
}

// readString reads a string of any of the four kinds.
func (p *toml) readString() (string, error) {
	quote := p.text[p.at : p.at+1]
	escapes := quote == `"`
	lines := false
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.text[p.at:], triple) {
		quote, lines = triple, true
	}
	p.at += len(quote)
	if lines {
		p.acceptToken("\n")
	}
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case p.acceptToken(quote):
			if lines { // quotes just before the closing ones belong to the string
				for p.acceptToken(quote[:1]) {
					b.WriteByte(quote[0])
				}
			}
			return b.String(), nil
		case c == '\\' && escapes:
			if err := p.readEscape(&b, lines); err != nil {
				return "", err
			}
		case c == '\n' && !lines:
			return "", fmt.Errorf("a string is not closed")
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", fmt.Errorf("a string is not closed")
}

func (p *toml) readEscape(b *strings.Builder, lines bool) error {
	p.at++
	c := p.peekByte()
	p.at = min(p.at+1, len(p.text))
	simple := map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', '"': '"', '\\': '\\'}
	if r, ok := simple[c]; ok {
		b.WriteByte(r)
		return nil
	}
	if lines && (c == '\n' || c == ' ' || c == '\t') {
		for p.peekByte() == '\n' || p.peekByte() == ' ' || p.peekByte() == '\t' {
			p.at++
		}
		return nil
	}
	digits := map[byte]int{'u': 4, 'U': 8}[c]
	if digits == 0 || p.at+digits > len(p.text) {
		return fmt.Errorf("escape \\%c is unknown", c)
	}
	code, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return fmt.Errorf("escape \\%c%s is no character", c, p.text[p.at:p.at+digits])
	}
	p.at += digits
	b.WriteRune(rune(code))
	return nil
}
