package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const fieldManager = "dovetail-sandbox"

// Client is safe for use by many goroutines.
type Client struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

// New returns a client of the API server that config points to.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = collector{}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Client{
		dynamic:   objects,
		discovery: kinds,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)),
	}, nil
}

// Discovery says which kinds the API server has.
func (c *Client) Discovery() discovery.DiscoveryInterface { return c.discovery }

// Of returns the resource that an object of this kind belongs to. The namespace is "default" when
// the kind has namespaces and none is given.
func (c *Client) Of(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%s is no kind of this API server: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource), nil
	}
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// Apply is kubectl apply --server-side: fields that the schema does not know are refused.
func (c *Client) Apply(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.Of(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, obj.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// Create is kubectl create, equally strict.
func (c *Client) Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.Of(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return resource.Create(ctx, obj,
		metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// Update is kubectl replace, equally strict.
func (c *Client) Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.Of(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return resource.Update(ctx, obj,
		metav1.UpdateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// Get reads an object in another version of its kind, or in its own when version is empty.
func (c *Client) Get(ctx context.Context, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	kind := obj.GroupVersionKind()
	if version != "" {
		kind.Version = version
	}
	resource, err := c.Of(kind, obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return resource.Get(ctx, obj.GetName(), metav1.GetOptions{})
}

// Delete removes an object.
func (c *Client) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	resource, err := c.Of(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return err
	}
	return resource.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
}

// Warnings collects what the API server warns of, which kubectl prints after "Warning:".
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// Texts returns the warnings so far.
func (w *Warnings) Texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.texts...)
}

type warningsKey struct{}

// WithWarnings returns a context whose requests leave their warnings in the second value. Without
// it, warnings are dropped.
func WithWarnings(ctx context.Context) (context.Context, *Warnings) {
	w := &Warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

type collector struct{}

func (collector) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if w, ok := ctx.Value(warningsKey{}).(*Warnings); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.texts = append(w.texts, text)
	}
}
