package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Encode writes the File as one line of JSON. The same File gives the same bytes.
func (f *File) Encode(w io.Writer) error {
	f.Format = Format
	return json.NewEncoder(w).Encode(f)
}

// Decode reads a File, compressed by gzip or not. It says where a malformed one is wrong.
func Decode(r io.Reader) (*File, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if data, err = Decompress(data); err != nil {
		return nil, err
	}
	var f File
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
		}
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("it has more than one JSON value")
	}
	if f.Format != Format {
		return nil, fmt.Errorf("the format is %q, want %q", f.Format, Format)
	}
	return &f, nil
}

// Is reports whether data can only be meant as a File: it is compressed, or says so itself, even if the rest is malformed. Decode
// says whether it is one.
func Is(data []byte) bool {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return true
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return false
		}
		if key == "format" {
			format, _ := decoder.Token() // what is malformed has none
			text, _ := format.(string)
			return strings.HasPrefix(text, "dovetail.sh/snapshot/")
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// Decompress returns what gzip has compressed, and other data as it is.
func Decompress(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	out, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return out, nil
}
