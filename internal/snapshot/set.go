package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// set changes a field of a NodePool: nodepool/NAME.PATH=VALUE. Nodes that are not what the pool then requests have drifted.
func (f *File) set(text string, words reqs.Vocabulary) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("--set %q: it is not UTF-8", text)
	}
	index, path, value, err := f.assignment(text)
	if err != nil {
		return fmt.Errorf("--set %s: %w", text, err)
	}
	before := &f.Objects.NodePools[index]
	after := before.DeepCopy()
	if err := setField(&after.Spec, path, value); err != nil {
		return fmt.Errorf("--set %s: %w", text, err)
	}
	effective, notes := after.Effective(f.Settings.Strict)
	problems, _ := effective.Validate(words)
	if problems = append(reason.Refusals(notes), problems...); len(problems) > 0 {
		return fmt.Errorf("--set %s: NodePool %s is not valid then: %s", text, after.Name, reason.Join(problems, 0))
	}
	f.Objects.NodePools = slices.Clone(f.Objects.NodePools)
	f.Objects.NodePools[index] = *after
	return f.driftClaims(before, &f.Objects.NodePools[index], words)
}

// assignment splits the text of a change: which NodePool, the path below its spec, and the value.
func (f *File) assignment(text string) (pool int, path string, value any, err error) {
	const want = "want nodepool/NAME.PATH=VALUE, such as nodepool/default.limits.cpu=100"
	target, written, assigned := strings.Cut(text, "=")
	named, isPool := strings.CutPrefix(target, "nodepool/")
	if !assigned || !isPool {
		return 0, "", nil, errors.New(want)
	}
	pool = -1
	var names []string
	for i := range f.Objects.NodePools { // names may have dots: the longest counts
		name := f.Objects.NodePools[i].Name
		names = append(names, name)
		rest, is := strings.CutPrefix(named, name+".")
		if is && (pool < 0 || len(name) > len(f.Objects.NodePools[pool].Name)) {
			pool, path = i, rest
		}
	}
	if pool < 0 {
		name, _, _ := strings.Cut(named, ".")
		return 0, "", nil, fmt.Errorf("there is no NodePool %s%s", name, near.Hint(name, names))
	}
	if path == "" {
		return 0, "", nil, errors.New(want)
	}
	if err := yaml.Unmarshal([]byte(written), &value); err != nil {
		return 0, "", nil, fmt.Errorf("the value is not YAML: %s", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	return pool, path, value, nil
}

// setField sets a field of a spec. An unknown field is an error that names the nearest one.
func setField(spec *karpv1.NodePoolSpec, path string, value any) error {
	if path == "requirements" || strings.HasPrefix(path, "requirements.") {
		path = "template.spec." + path
	}
	path = strings.TrimPrefix(path, "spec.")
	keys, kind, err := resolvePath(reflect.TypeFor[karpv1.NodePoolSpec](), path)
	if err != nil {
		return err
	}
	if err := checkFields(kind, value, path); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	assign(fields, keys, value)
	if text, err = json.Marshal(fields); err != nil {
		return err
	}
	var changed karpv1.NodePoolSpec
	strict, err := kjson.UnmarshalStrict(text, &changed)
	if err = errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	*spec = changed
	return nil
}

// assign sets what is at the end of some keys. A value of nothing removes it.
func assign(fields map[string]any, keys []string, value any) {
	for _, key := range keys[:len(keys)-1] {
		inner, is := fields[key].(map[string]any)
		if !is {
			inner = map[string]any{}
			fields[key] = inner
		}
		fields = inner
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(fields, last)
	} else {
		fields[last] = value
	}
}

// resolvePath splits a path into the keys of JSON objects, and finds the type of what is there.
func resolvePath(t reflect.Type, path string) (keys []string, end reflect.Type, err error) {
	for rest := path; ; {
		t = pointedTo(t)
		switch {
		case t.Kind() == reflect.Map: // keys, such as labels, may have dots
			return append(keys, rest), t.Elem(), nil
		case t.Kind() == reflect.Slice:
			return nil, nil, fmt.Errorf("%s is a list; set it as a whole", strings.Join(keys, "."))
		case t.Kind() != reflect.Struct || isLeaf(t):
			return nil, nil, fmt.Errorf("%s has no fields", strings.Join(keys, "."))
		}
		key, more, deeper := strings.Cut(rest, ".")
		fields := fieldsOf(t)
		next, known := fields[key]
		if !known {
			if len(keys) == 0 {
				fields["requirements"] = nil // the short form
			}
			return nil, nil, unknownField(append(keys, key), fields)
		}
		keys, t = append(keys, key), next
		if !deeper {
			return keys, t, nil
		}
		rest = more
	}
}

// checkFields checks that a value has only fields that its type has.
func checkFields(t reflect.Type, value any, path string) error {
	t = pointedTo(t)
	if isLeaf(t) {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			inner, err := innerField(t, path, key)
			if err != nil {
				return err
			}
			if err := checkFields(inner, v[key], path+"."+key); err != nil {
				return err
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return fmt.Errorf("%s: want %s, not a list", path, wanted(t))
		}
		for i, item := range v {
			if err := checkFields(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	default:
		if kind := t.Kind(); value != nil && (kind == reflect.Struct || kind == reflect.Slice || kind == reflect.Map) {
			return fmt.Errorf("%s: want %s, not %v", path, wanted(t), value)
		}
	}
	return nil
}

// innerField is the type of what an object has below a key.
func innerField(t reflect.Type, path, key string) (reflect.Type, error) {
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s: want %s, not an object", path, wanted(t))
	}
	fields := fieldsOf(t)
	inner, known := fields[key]
	if !known {
		return nil, unknownField([]string{path, key}, fields)
	}
	return inner, nil
}

func wanted(t reflect.Type) string {
	kind := t.Kind()
	switch {
	case kind == reflect.Slice:
		return "a list"
	case kind == reflect.Struct || kind == reflect.Map:
		return "an object"
	}
	return "a single value"
}

func unknownField(path []string, fields map[string]reflect.Type) error {
	names := slices.Sorted(maps.Keys(fields))
	name := path[len(path)-1]
	hint := near.Hint(name, names)
	if hint == "" {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("there is no field %s%s", strings.TrimPrefix(strings.Join(path, "."), "."), hint)
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isLeaf reports whether a type reads its JSON itself.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldsOf are the types of the fields of a struct by their JSON names.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			maps.Copy(out, fieldsOf(pointedTo(field.Type)))
		case name != "":
			out[name] = field.Type
		}
	}
	return out
}

// driftClaims says of NodeClaims of a NodePool that they have drifted, as the controller would once the pool is changed.
func (f *File) driftClaims(before, after *karpv1.NodePool, words reqs.Vocabulary) error {
	old, err := drift.PoolHash(before)
	if err != nil {
		return err
	}
	hash, err := drift.PoolHash(after)
	if err != nil {
		return err
	}
	after.Annotations = withValues(after.Annotations, hash.OnPool())
	effective, _ := after.Effective(f.Settings.Strict)
	f.Objects.NodeClaims = slices.Clone(f.Objects.NodeClaims)
	for i := range f.Objects.NodeClaims {
		claim := &f.Objects.NodeClaims[i]
		if claim.Labels[karpv1.LabelNodePool] != after.Name || meta.IsStatusConditionTrue(claim.Status.Conditions, karpv1.ConditionDrifted) {
			continue
		}
		compared := claim.DeepCopy()
		if compared.Annotations[karpv1.AnnotationNodePoolHashVersion] != drift.PoolHashVersion { // another controller's
			compared.Annotations = withValues(compared.Annotations, old.OnPool())
		}
		why := drift.Pool(effective, compared, words)
		if why.Code == "" {
			continue
		}
		meta.SetStatusCondition(&compared.Status.Conditions, metav1.Condition{
			Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: string(why.Code), Message: why.Text(), LastTransitionTime: metav1.NewTime(f.Taken),
		})
		f.Objects.NodeClaims[i] = *compared
	}
	return nil
}

// withValues is a map with more values.
func withValues(all, more map[string]string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}
