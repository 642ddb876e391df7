package apiserver_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/admission/cases"
)

// TestCases runs every admission case against the real API server. Rule ids are in the case files.
func TestCases(t *testing.T) {
	t.Parallel()
	all, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		t.Run(c.File+"/"+c.Rule+" "+c.Name, func(t *testing.T) {
			t.Parallel()
			c.Object = c.Object.DeepCopy()
			if !namesItself(c) {
				c.Object.SetName(fmt.Sprintf("case-%d", i))
			}
			if err := c.Run(t.Context(), caseAPI{t}); err != nil {
				t.Error(err)
			}
		})
	}
}

// namesItself tells a case about names, which must keep the one it has.
func namesItself(c cases.Case) bool {
	metadata, _ := c.Patch["metadata"].(map[string]any)
	_, named := metadata["name"]
	return named
}

// caseAPI is a cases.API on the real server. It removes what it created when the test ends.
type caseAPI struct{ t *testing.T }

func (a caseAPI) Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	created, err := server.Create(ctx, obj)
	if err != nil {
		return nil, err
	}
	a.t.Cleanup(func() { remove(a.t, created) })
	return readStored(ctx, created)
}

func (caseAPI) Update(ctx context.Context, obj, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	updated, err := server.Update(ctx, obj)
	if err != nil {
		return nil, err
	}
	return readStored(ctx, updated)
}

func readStored(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	version, _ := storageVersion(obj.GroupVersionKind().GroupKind())
	return server.Get(ctx, obj, version)
}

// remove deletes an object although the context of its test has ended.
func remove(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	if err := server.Delete(context.WithoutCancel(t.Context()), obj); err != nil {
		t.Errorf("remove %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}
