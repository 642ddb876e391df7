package crds

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// CRD is one CustomResourceDefinition as YAML.
type CRD struct {
	File string // such as karpenter.sh_nodepools.yaml
	YAML []byte
}

// All returns every CRD, ordered by file name.
func All() ([]CRD, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	crds := make([]CRD, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		crds = append(crds, CRD{File: name, YAML: text})
	}
	return crds, nil
}
