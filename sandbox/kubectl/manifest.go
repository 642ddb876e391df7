package kubectl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Manifest is one document of a YAML file.
type Manifest struct {
	File     string
	Document int // counted from 1
	Object   *unstructured.Unstructured
}

// ReadFolder returns the manifests of every .yaml and .yml file of a folder, in the order of file
// names and documents.
func ReadFolder(dir string) ([]Manifest, error) {
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, fmt.Errorf("folder %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var all []Manifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		manifests, err := Read(file, text)
		if err != nil {
			return nil, err
		}
		all = append(all, manifests...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no manifests in folder %s: it has no .yaml file with an object in it", dir)
	}
	return all, nil
}

// Read returns the manifests of one text. Documents without content are left out.
func Read(file string, text []byte) ([]Manifest, error) {
	var all []Manifest
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		content, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, number, err)
		}
		if string(content) == "null" {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, number, err)
		}
		if obj.GetName() == "" {
			return nil, fmt.Errorf("%s: document %d: metadata.name: required", file, number)
		}
		all = append(all, Manifest{File: file, Document: number, Object: obj})
	}
}
