package main

import (
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// shape is the type of a field.
type shape int

const (
	text shape = iota
	number
	flag
	texts   // a list
	textSet // a set
	textMap
	structs // a list of objects, only to be read
)

// field is an attribute of a resource or a data source. One that is neither required nor optional is computed.
type field struct {
	shape    shape
	required bool
	optional bool
	computed bool // beside optional: AWS chooses where the user does not
	replace  bool // a change makes a new resource
	changes  bool // an update can change what was computed
	json     bool // two texts with the same JSON are equal
	secret   bool // not shown
	usually  any  // the default
	of       map[string]field
}

// block is a nested block.
type block struct {
	set      bool // else a list
	single   bool // at most one
	required bool
	replace  bool
	fields   map[string]field
	blocks   map[string]block
}

// The kinds of fields that there are most of.
func requiredField(s shape) field { return field{shape: s, required: true} }
func optionalField(s shape) field { return field{shape: s, optional: true} }
func computedField(s shape) field { return field{shape: s} }

// optionalComputed is chosen by the user, or else by AWS.
func optionalComputed(s shape) field { return field{shape: s, optional: true, computed: true} }

// withDefault has a default.
func withDefault(value any) field {
	f := field{optional: true, computed: true, usually: value}
	switch value.(type) {
	case bool:
		f.shape = flag
	case int64:
		f.shape = number
	}
	return f
}

// forcingReplacement is a field whose change makes a new resource.
func forcingReplacement(f field) field { f.replace = true; return f }

// jsonField is a text of JSON.
func jsonField(f field) field { f.json = true; return f }

// object is a computed list of objects.
func structsOf(of map[string]field) field { return field{shape: structs, of: of} }

func (f field) isComputed() bool { return f.computed || !f.required && !f.optional }

// elementType is what lists and maps hold.
func (f field) elementType() attr.Type {
	if f.shape != structs {
		return types.StringType
	}
	of := map[string]attr.Type{}
	for name, inner := range f.of {
		of[name] = inner.attrType()
	}
	return types.ObjectType{AttrTypes: of}
}

func (f field) attrType() attr.Type {
	switch f.shape {
	case text:
		return types.StringType
	case number:
		return types.Int64Type
	case flag:
		return types.BoolType
	case texts, structs:
		return types.ListType{ElemType: f.elementType()}
	case textSet:
		return types.SetType{ElemType: types.StringType}
	case textMap:
		return types.MapType{ElemType: types.StringType}
	}
	panic(fmt.Sprint("no shape ", f.shape))
}

// planModifiers are the rules of a plan for one field: what forces a replacement, and what stays as it is.
func planModifiers[M any](f field, replace, keep func() M) []M {
	var out []M
	if f.isComputed() && !f.changes && f.usually == nil {
		out = append(out, keep())
	}
	if f.replace {
		out = append(out, replace())
	}
	return out
}

func (f field) schemaAttribute() schema.Attribute {
	c, o, r := f.isComputed(), f.optional, f.required
	switch f.shape {
	case text:
		return schema.StringAttribute{
			Required: r, Optional: o, Computed: c, Default: defaultText(f.usually),
			PlanModifiers: planModifiers(f, stringplanmodifier.RequiresReplace, stringplanmodifier.UseStateForUnknown),
		}
	case number:
		return schema.Int64Attribute{
			Required: r, Optional: o, Computed: c, Default: defaultNumber(f.usually),
			PlanModifiers: planModifiers(f, int64planmodifier.RequiresReplace, int64planmodifier.UseStateForUnknown),
		}
	case flag:
		return schema.BoolAttribute{
			Required: r, Optional: o, Computed: c, Default: defaultFlag(f.usually),
			PlanModifiers: planModifiers(f, boolplanmodifier.RequiresReplace, boolplanmodifier.UseStateForUnknown),
		}
	case texts, structs:
		return schema.ListAttribute{
			Required: r, Optional: o, Computed: c, ElementType: f.elementType(),
			PlanModifiers: planModifiers(f, listplanmodifier.RequiresReplace, listplanmodifier.UseStateForUnknown),
		}
	case textSet:
		return schema.SetAttribute{
			Required: r, Optional: o, Computed: c, ElementType: f.elementType(),
			PlanModifiers: planModifiers(f, setplanmodifier.RequiresReplace, setplanmodifier.UseStateForUnknown),
		}
	case textMap:
		return schema.MapAttribute{
			Required: r, Optional: o, Computed: c, ElementType: f.elementType(),
			PlanModifiers: planModifiers(f, mapplanmodifier.RequiresReplace, mapplanmodifier.UseStateForUnknown),
		}
	}
	panic(fmt.Sprint("no shape ", f.shape))
}

func schemaAttributes(fields map[string]field) map[string]schema.Attribute {
	out := map[string]schema.Attribute{}
	for name, f := range fields {
		out[name] = f.schemaAttribute()
	}
	return out
}

func schemaBlocks(blocks map[string]block) map[string]schema.Block {
	out := map[string]schema.Block{}
	for name, b := range blocks {
		inner := schema.NestedBlockObject{Attributes: schemaAttributes(b.fields), Blocks: schemaBlocks(b.blocks)}
		if b.set {
			s := schema.SetNestedBlock{NestedObject: inner}
			if b.replace {
				s.PlanModifiers = []planmodifier.Set{setplanmodifier.RequiresReplace()}
			}
			out[name] = s
			continue
		}
		l := schema.ListNestedBlock{NestedObject: inner}
		if b.replace {
			l.PlanModifiers = []planmodifier.List{listplanmodifier.RequiresReplace()}
		}
		out[name] = l
	}
	return out
}

// dataAttributes are those of a data source, where nothing is planned.
func dataAttributes(fields map[string]field) map[string]datasource.Attribute {
	out := map[string]datasource.Attribute{}
	for name, f := range fields {
		c, o, r := f.isComputed(), f.optional, f.required
		switch f.shape {
		case text:
			out[name] = datasource.StringAttribute{Required: r, Optional: o, Computed: c, Sensitive: f.secret}
		case number:
			out[name] = datasource.Int64Attribute{Required: r, Optional: o, Computed: c}
		case flag:
			out[name] = datasource.BoolAttribute{Required: r, Optional: o, Computed: c}
		case texts, structs:
			out[name] = datasource.ListAttribute{Required: r, Optional: o, Computed: c, ElementType: f.elementType()}
		case textSet:
			out[name] = datasource.SetAttribute{Required: r, Optional: o, Computed: c, ElementType: f.elementType()}
		case textMap:
			out[name] = datasource.MapAttribute{Required: r, Optional: o, Computed: c, ElementType: f.elementType()}
		}
	}
	return out
}

func dataBlocks(blocks map[string]block) map[string]datasource.Block {
	out := map[string]datasource.Block{}
	for name, b := range blocks {
		inner := datasource.NestedBlockObject{Attributes: dataAttributes(b.fields), Blocks: dataBlocks(b.blocks)}
		if b.set {
			out[name] = datasource.SetNestedBlock{NestedObject: inner}
		} else {
			out[name] = datasource.ListNestedBlock{NestedObject: inner}
		}
	}
	return out
}

// mergeTables adds fields to a table.
func mergeTables(tables ...map[string]field) map[string]field {
	out := map[string]field{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

// checkBlocks finds blocks that are missing, or are there too often.
func checkBlocks(blocks map[string]block, o object, complain func(name, problem string)) {
	for name, b := range blocks {
		if _, later := o[name].(unknown); later {
			continue
		}
		given := o.blockValues(name)
		if b.required && len(given) == 0 {
			complain(name, fmt.Sprintf("At least 1 %q block is required.", name))
		}
		if b.single && len(given) > 1 {
			complain(name, fmt.Sprintf("No more than 1 %q block is allowed.", name))
		}
		for _, one := range given {
			checkBlocks(b.blocks, one, complain)
		}
	}
}
