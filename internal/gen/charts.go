package main

import (
	"bytes"
	"path/filepath"
)

// kept is the metadata of a CRD in the chart of CRDs. Helm would delete the CRD with the release, and with the CRD every
// object of its kind.
const kept = `metadata:
  annotations:
    helm.sh/resource-policy: keep
    {{- with .Values.additionalAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
`

// chartCRDs is a CRD as the two charts have it: as it is, for the chart that installs it once, and as a template, for the
// one that upgrades it.
func chartCRDs(name string, text []byte) []file {
	literal := bytes.ReplaceAll(text, []byte("{{"), []byte(`{{ "{{" }}`))
	return []file{
		{filepath.Join("charts", "karpenter", "crds", name), text},
		{filepath.Join("charts", "karpenter-crd", "templates", name), bytes.Replace(literal, []byte("metadata:\n"), []byte(kept), 1)},
	}
}
