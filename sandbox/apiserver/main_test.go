package apiserver_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// The control plane that all tests share.
var server *harness.Server

func TestMain(m *testing.M) { harness.Main(m, harness.Options{}, &server) }

// storageVersion returns the version that a kind is stored in, and whether it is one of ours.
func storageVersion(kind schema.GroupKind) (version string, ours bool) {
	for _, crd := range server.CRDs {
		if crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				return v.Name, true
			}
		}
	}
	return "", false
}

// servedVersions returns the versions that a kind of ours can be read in.
func servedVersions(kind schema.GroupKind) []string {
	var versions []string
	for _, crd := range server.CRDs {
		if crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				versions = append(versions, v.Name)
			}
		}
	}
	return versions
}
