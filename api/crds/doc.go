// Package crds holds the generated CustomResourceDefinitions, embedded in the binary.
//
// The YAML files beside this one are written by internal/gen from the types in api/; never edit
// them by hand. Start reading at All.
package crds
