package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

// Server responds like an API server that has the CRDs of this repository installed.
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

// New compiles the embedded CRDs. That the API server takes them is checked by a test.
func New() (*Server, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	s := &Server{versions: map[schema.GroupVersionKind]*version{}}
	for _, crd := range all {
		if err := s.add(crd.YAML); err != nil {
			return nil, fmt.Errorf("%s: %w", crd.File, err)
		}
	}
	return s, nil
}

func (s *Server) add(text []byte) error {
	internal, err := Decode(text)
	if err != nil {
		return err
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

// Decode reads a CRD the way the API server does, defaults included.
func Decode(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	external.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
	internal := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, internal, nil)
	return internal, err
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
	return s.Update(ctx, obj, nil)
}

// Update is Create for an object that exists as old, in the storage version.
func (s *Server) Update(ctx context.Context, obj, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	stored, errs := s.admit(ctx, obj, old)
	return stored, errs.ToAggregate()
}

// Refusals lists what is wrong with a new object, field by field. The tree may hold numbers of any
// type.
func (s *Server) Refusals(ctx context.Context, tree map[string]any) field.ErrorList {
	obj := &unstructured.Unstructured{}
	text, err := json.Marshal(tree)
	if err == nil {
		err = obj.UnmarshalJSON(text) // the API machinery knows its own number types only
	}
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	_, errs := s.admit(ctx, obj, nil)
	return errs
}

func (s *Server) admit(ctx context.Context, obj, old *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	v, known := s.versions[obj.GroupVersionKind()]
	if !known {
		return nil, field.ErrorList{field.NotFound(field.NewPath("kind"), obj.GroupVersionKind().String())}
	}
	obj = obj.DeepCopy()
	if obj.GetName() == "" {
		return nil, field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")}
	}
	var errs field.ErrorList
	for _, path := range pruning.PruneWithOptions(obj.Object, v.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, v.structural)
	defaulting.Default(obj.Object, v.structural)
	if errs := v.validate(ctx, obj, old); len(errs) > 0 {
		return nil, errs
	}
	stored := s.versions[v.storage]
	obj.SetGroupVersionKind(v.storage)
	defaulting.Default(obj.Object, stored.structural)
	return obj, nil
}

// validate lists what is wrong, in the order of the fields: the libraries range over maps, and users compare
// the errors they get with those they got before.
func (v *version) validate(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	errs := v.validationErrors(ctx, obj, old)
	slices.SortFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	return errs
}

func (v *version) validationErrors(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
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
