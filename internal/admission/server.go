package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/api/crds"
)

// Server answers like an API server that has the CRDs of this repository installed.
type Server struct {
	versions map[schema.GroupVersionKind]*version
}

// version is one served version of a kind.
type version struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
	storage    schema.GroupVersionKind
}

// New compiles the embedded CRDs. It fails when the API server would not take one of them, for
// example because a CEL rule is too expensive.
func New(ctx context.Context) (*Server, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	s := &Server{versions: map[schema.GroupVersionKind]*version{}}
	for _, crd := range all {
		if err := s.add(ctx, crd.YAML); err != nil {
			return nil, fmt.Errorf("%s: %w", crd.File, err)
		}
	}
	return s, nil
}

func (s *Server) add(ctx context.Context, text []byte) error {
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		return err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	external.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, internal, nil); err != nil {
		return err
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(ctx, internal); len(errs) > 0 {
		return errs.ToAggregate()
	}
	gvk := schema.GroupVersionKind{Group: internal.Spec.Group, Kind: internal.Spec.Names.Kind}
	storage := gvk
	for _, v := range internal.Spec.Versions {
		if v.Storage {
			storage.Version = v.Name
		}
	}
	for _, v := range internal.Spec.Versions {
		compiled, err := compile(internal, v.Name)
		if err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
		compiled.storage = storage
		s.versions[schema.GroupVersionKind{Group: gvk.Group, Version: v.Name, Kind: gvk.Kind}] = compiled
	}
	return nil
}

func compile(crd *apiextensions.CustomResourceDefinition, name string) (*version, error) {
	props, err := apiextensions.GetSchemaForVersion(crd, name)
	if err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &version{
		structural: structural,
		schema:     validator,
		cel:        cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Create returns the object as it would be read back after kubectl apply: unknown fields are
// refused, defaults of its own version filled in, then those of the storage version.
func (s *Server) Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.admit(ctx, obj, nil)
}

// Update is Create for an object that exists as old, in the storage version.
func (s *Server) Update(ctx context.Context, obj, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.admit(ctx, obj, old)
}

func (s *Server) admit(ctx context.Context, obj, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	v, known := s.versions[obj.GroupVersionKind()]
	if !known {
		return nil, fmt.Errorf("no such kind: %s", obj.GroupVersionKind())
	}
	obj = obj.DeepCopy()
	if err := checkMeta(obj); err != nil {
		return nil, err
	}
	unknown := pruning.PruneWithOptions(obj.Object, v.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown fields: %s", strings.Join(unknown, ", "))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, v.structural)
	defaulting.Default(obj.Object, v.structural)
	if errs := v.validate(ctx, obj, old); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	stored := s.versions[v.storage]
	obj.SetGroupVersionKind(v.storage)
	defaulting.Default(obj.Object, stored.structural)
	return obj, nil
}

func checkMeta(obj *unstructured.Unstructured) error {
	if obj.GetName() == "" {
		return errors.New("metadata.name: required")
	}
	return nil
}

func (v *version) validate(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj.UnstructuredContent(), v.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, obj.Object)...)
	if len(errs) > 0 || v.cel == nil {
		return errs // as the API server: no CEL over an object of the wrong shape
	}
	var oldContent any
	if old != nil {
		oldContent = old.Object
	}
	celErrs, _ := v.cel.Validate(ctx, nil, v.structural, obj.Object, oldContent, celconfig.RuntimeCELCostBudget)
	return append(errs, celErrs...)
}
