package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// The API server that all tests share, and the CRDs installed in it.
var (
	server *kubectl.Client
	crds   []*apiextensionsv1.CustomResourceDefinition
)

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, NoControllers: true, NoScheduler: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if server, err = kubectl.New(cp.Config); err != nil {
		return 1, err
	}
	if crds, err = server.InstallCRDs(ctx); err != nil {
		return 1, err
	}
	return run(), nil
}

// storage returns the version that a kind is stored in, and whether it is one of ours.
func storage(kind schema.GroupKind) (version string, ours bool) {
	for _, crd := range crds {
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

// served returns the versions that a kind of ours can be read in.
func served(kind schema.GroupKind) []string {
	var versions []string
	for _, crd := range crds {
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
