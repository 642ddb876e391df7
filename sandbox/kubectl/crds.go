package kubectl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/api/crds"
)

var crdResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// InstallCRDs applies the CustomResourceDefinitions of this repository, over older ones if need be,
// and returns them once each version of each kind is served and listed.
func (c *Client) InstallCRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := crds.All()
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	pending := map[string]bool{}
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(file.YAML, crd); err != nil {
			return nil, fmt.Errorf("read CRD %s: %w", file.File, err)
		}
		manifests, err := Read(file.File, file.YAML)
		if err != nil {
			return nil, err
		}
		for _, m := range manifests {
			if _, err := c.Apply(ctx, m.Object); err != nil {
				return nil, fmt.Errorf("install CRD %s: %w", m.Object.GetName(), err)
			}
		}
		all = append(all, crd)
		pending[crd.Name] = true
	}
	if err := c.awaitEstablished(ctx, pending); err != nil {
		return nil, fmt.Errorf("CRDs not established: %v: %w", slices.Sorted(maps.Keys(pending)), err)
	}
	return all, c.awaitDiscovery(ctx, all)
}

// awaitEstablished watches until no CRD is left in pending.
func (c *Client) awaitEstablished(ctx context.Context, pending map[string]bool) error {
	resource := c.dynamic.Resource(crdResource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		seen, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			switch {
			case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse && pending[crd.Name]:
				return false, fmt.Errorf("%s: %s", crd.Name, condition.Message)
			case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
				delete(pending, crd.Name)
			}
		}
		return len(pending) == 0, nil
	})
	return err
}

// awaitDiscovery polls until clients that look kinds up will find them. That cannot be watched.
func (c *Client) awaitDiscovery(ctx context.Context, all []*apiextensionsv1.CustomResourceDefinition) error {
	var missing error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		missing = c.checkDiscovered(all)
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("CRDs are established but not listed: %w: %w", missing, err)
	}
	return nil
}

// checkDiscovered returns an error that names the first served version that discovery does not show.
func (c *Client) checkDiscovered(all []*apiextensionsv1.CustomResourceDefinition) error {
	c.mapper.Reset()
	for _, crd := range all {
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			if _, err := c.mapper.RESTMapping(kind, v.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
