package cases

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// API takes objects: admission.Server does, and so does a client of a real API server.
type API interface {
	Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj, old *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// Case is one manifest and what the API server must say to it.
type Case struct {
	Rule string `json:"rule"` // rule of the specification it shows
	Name string `json:"name"`
	// Base names an entry of the file's bases; empty means "default".
	Base string `json:"base"`
	// Patch is a JSON merge patch on the base: lists are replaced, null removes.
	Patch map[string]any `json:"patch"`
	// Update is a second merge patch, sent as an update of the created object. Refuse and Want then
	// speak of the update; the creation must pass.
	Update map[string]any `json:"update"`
	// Refuse is a part of the message of the refusal; empty means the object is accepted.
	Refuse string `json:"refuse"`
	// Want must be contained in the object that is read back.
	Want map[string]any `json:"want"`

	File   string                     `json:"-"`
	Object *unstructured.Unstructured `json:"-"`
}

// All returns all cases with their objects built.
func All() ([]Case, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		var f struct {
			Bases map[string]map[string]any `json:"bases"`
			Cases []Case                    `json:"cases"`
		}
		if err := yaml.UnmarshalStrict(text, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for _, c := range f.Cases {
			if c.Base == "" {
				c.Base = "default"
			}
			base, ok := f.Bases[c.Base]
			if !ok {
				return nil, fmt.Errorf("%s: case %q: no base %q", e.Name(), c.Name, c.Base)
			}
			c.File = e.Name()
			c.Object, err = unstructuredFrom(merge(base, c.Patch))
			if err != nil {
				return nil, fmt.Errorf("%s: case %q: %w", e.Name(), c.Name, err)
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// Run sends the case to an API and returns an error when the response is not the one wanted.
func (c Case) Run(ctx context.Context, api API) error {
	got, err := api.Create(ctx, c.Object)
	if len(c.Update) > 0 {
		if err != nil {
			return fmt.Errorf("refused before the update: %w", err)
		}
		next, mergeErr := unstructuredFrom(merge(got.Object, c.Update))
		if mergeErr != nil {
			return mergeErr
		}
		got, err = api.Update(ctx, next, got)
	}
	switch {
	case c.Refuse == "" && err != nil:
		return fmt.Errorf("refused: %w", err)
	case c.Refuse != "" && err == nil:
		return fmt.Errorf("accepted, want a refusal with %q", c.Refuse)
	case c.Refuse != "" && !strings.Contains(err.Error(), c.Refuse):
		return fmt.Errorf("refused, but not with %q: %w", c.Refuse, err)
	case c.Refuse != "":
		return nil
	}
	want, err := unstructuredFrom(c.Want)
	if err != nil {
		return err
	}
	if missing := firstMissing(want.Object, got.Object, ""); missing != "" {
		return fmt.Errorf("read back without %s", missing)
	}
	return nil
}

// merge applies a JSON merge patch (RFC 7386) without changing its arguments.
func merge(base, patch map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range patch {
		if v == nil {
			delete(out, k)
			continue
		}
		if inner, ok := v.(map[string]any); ok {
			below, _ := out[k].(map[string]any)
			out[k] = merge(below, inner)
			continue
		}
		out[k] = v
	}
	return out
}

// unstructuredFrom passes through JSON so that numbers have the types the API machinery expects.
func unstructuredFrom(tree map[string]any) (*unstructured.Unstructured, error) {
	if tree == nil {
		return &unstructured.Unstructured{}, nil
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &obj.Object); err != nil {
		return nil, err
	}
	normalize(obj.Object)
	return obj, nil
}

// normalize turns whole floats into int64, as the API server's decoder does.
func normalize(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = normalize(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = normalize(inner)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// firstMissing returns the path of the first part of want that have lacks, or "".
func firstMissing(want, have any, at string) string {
	w, ok := want.(map[string]any)
	if !ok {
		if reflect.DeepEqual(want, have) {
			return ""
		}
		return fmt.Sprintf("%s: %v (it is %v)", at, want, have)
	}
	h, _ := have.(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(w)) {
		if missing := firstMissing(w[k], h[k], at+"."+k); missing != "" {
			return missing
		}
	}
	return ""
}
