package main

import (
	"fmt"
	"math/big"
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// object holds the values of a resource, a data source or a block by attribute. A value is nil, unknown, a string, an int64,
// a bool, a []any or an object. What functions of a kind put in may also be pointers, other integers, slices and maps.
type object map[string]any

// unknown stands for a value that is known after the apply.
type unknown struct{}

func (o object) stringValue(name string) string { s, _ := o[name].(string); return s }

func (o object) intValue(name string) int64 { n, _ := o[name].(int64); return n }

func (o object) boolValue(name string) bool { b, _ := o[name].(bool); return b }

// has says whether the user, or a default, gave a value.
func (o object) has(name string) bool {
	_, later := o[name].(unknown)
	return o[name] != nil && !later
}

// stringPointer is the text, or nil where there is none.
func (o object) stringPointer(name string) *string {
	if s, found := o[name].(string); found {
		return &s
	}
	return nil
}

func (o object) number32(name string) *int32 {
	if n, found := o[name].(int64); found {
		return new(int32(n))
	}
	return nil
}

func (o object) flagPointer(name string) *bool {
	if b, found := o[name].(bool); found {
		return &b
	}
	return nil
}

// stringValues are the elements of a list or a set.
func (o object) stringValues(name string) []string {
	list, _ := o[name].([]any)
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func (o object) textMap(name string) map[string]string {
	m, _ := o[name].(object)
	out := map[string]string{}
	for key := range m {
		out[key] = m.stringValue(key)
	}
	return out
}

func (o object) blockValues(name string) []object {
	list, _ := o[name].([]any)
	var out []object
	for _, v := range list {
		if b, ok := v.(object); ok {
			out = append(out, b)
		}
	}
	return out
}

// singleBlock is the only one of its name; empty if there is none.
func (o object) singleBlock(name string) object {
	if list := o.blockValues(name); len(list) > 0 {
		return list[0]
	}
	return object{}
}

// toGo reads a value of the protocol.
func toGo(v tftypes.Value) (any, error) {
	if !v.IsKnown() {
		return unknown{}, nil
	}
	if v.IsNull() {
		return nil, nil
	}
	t := v.Type()
	switch {
	case t.Is(tftypes.String):
		var s string
		return s, v.As(&s)
	case t.Is(tftypes.Bool):
		var b bool
		return b, v.As(&b)
	case t.Is(tftypes.Number):
		var n big.Float
		err := v.As(&n)
		whole, _ := n.Int64()
		return whole, err
	case t.Is(tftypes.List{}), t.Is(tftypes.Set{}), t.Is(tftypes.Tuple{}):
		var list []tftypes.Value
		if err := v.As(&list); err != nil {
			return nil, err
		}
		out := []any{}
		for _, e := range list {
			one, err := toGo(e)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	}
	var m map[string]tftypes.Value
	if err := v.As(&m); err != nil {
		return nil, err
	}
	out := object{}
	for key, e := range m {
		one, err := toGo(e)
		if err != nil {
			return nil, err
		}
		out[key] = one
	}
	return out, nil
}

// plainValue turns what functions of a kind put in into what toGo makes.
func plainValue(v any) any {
	r := reflect.ValueOf(v)
	switch {
	case r.Kind() == reflect.Pointer && r.IsNil():
		return nil
	case r.Kind() == reflect.Pointer:
		return plainValue(r.Elem().Interface())
	case r.CanInt():
		return r.Int()
	case r.Kind() == reflect.String:
		return r.String()
	case r.Kind() == reflect.Slice:
		out := []any{}
		for i := range r.Len() {
			out = append(out, plainValue(r.Index(i).Interface()))
		}
		return out
	case r.Kind() == reflect.Map:
		out := object{}
		for _, key := range r.MapKeys() {
			out[key.String()] = plainValue(r.MapIndex(key).Interface())
		}
		return out
	}
	return v
}

// toProtocol writes a plain value as one of a type. What is absent is null.
func toProtocol(t tftypes.Type, v any) (tftypes.Value, error) {
	switch value := v.(type) {
	case nil:
		return tftypes.NewValue(t, nil), nil
	case unknown:
		return tftypes.NewValue(t, tftypes.UnknownValue), nil
	case string, bool, int64:
		if t.Is(tftypes.String) || t.Is(tftypes.Bool) || t.Is(tftypes.Number) {
			return tftypes.NewValue(t, v), nil
		}
	case []any:
		var element tftypes.Type
		switch list := t.(type) {
		case tftypes.List:
			element = list.ElementType
		case tftypes.Set:
			element = list.ElementType
		default:
			return tftypes.Value{}, fmt.Errorf("a list where %s is wanted", t)
		}
		out := []tftypes.Value{}
		for _, one := range value {
			e, err := toProtocol(element, one)
			if err != nil {
				return tftypes.Value{}, err
			}
			out = append(out, e)
		}
		return tftypes.NewValue(t, out), nil
	case object:
		return mapToProtocol(t, value)
	}
	return tftypes.Value{}, fmt.Errorf("%T where %s is wanted", v, t)
}

func mapToProtocol(t tftypes.Type, value object) (tftypes.Value, error) {
	out := map[string]tftypes.Value{}
	switch kind := t.(type) {
	case tftypes.Map:
		for key, one := range value {
			e, err := toProtocol(kind.ElementType, one)
			if err != nil {
				return tftypes.Value{}, fmt.Errorf("%s: %w", key, err)
			}
			out[key] = e
		}
	case tftypes.Object:
		for key, of := range kind.AttributeTypes {
			e, err := toProtocol(of, value[key])
			if err != nil {
				return tftypes.Value{}, fmt.Errorf("%s: %w", key, err)
			}
			out[key] = e
		}
	default:
		return tftypes.Value{}, fmt.Errorf("a map where %s is wanted", t)
	}
	return tftypes.NewValue(t, out), nil
}

// isEmpty says of a value that AWS does not tell it from one that was not given.
func isEmpty(v any) bool {
	switch value := v.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case int64:
		return value == 0
	case []any:
		return len(value) == 0
	case object:
		return len(value) == 0
	}
	return false
}

// fillUnknown fills what was planned as unknown with what there is now. What was planned is not changed: a difference is found
// by the next plan.
func fillUnknown(planned, found any) any {
	switch p := planned.(type) {
	case unknown:
		if _, later := found.(unknown); later {
			return nil
		}
		return found
	case object:
		f, _ := found.(object)
		out := object{}
		for key, value := range p {
			out[key] = fillUnknown(value, f[key])
		}
		return out
	case []any:
		f, _ := found.([]any)
		out := []any{}
		for i, value := range p {
			var other any
			if i < len(f) {
				other = f[i]
			}
			out = append(out, fillUnknown(value, other))
		}
		return out
	}
	return planned
}
