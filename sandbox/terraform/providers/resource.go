package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// errGone is what read returns for a resource that is not there any more.
var errGone = errors.New("it does not exist")

// kind is a type of resource: its arguments, and what is done about them. C is what calls are made with.
//
// Functions get the values of the user and what is computed already. create sets the id as soon as there is something to be
// deleted, also when it fails later; read sets all that can be read, from the id alone where the arguments allow it.
type kind[C any] struct {
	name   string
	fields map[string]field
	blocks map[string]block

	create func(ctx context.Context, c C, o object) error
	read   func(ctx context.Context, c C, o object) error
	update func(ctx context.Context, c C, was, o object) error // nil: every change makes a new one, but for tags
	remove func(ctx context.Context, c C, o object) error
	// tag and untag change tags. Kinds that have them have the arguments tags and tags_all.
	tag   func(ctx context.Context, c C, o object, set map[string]string) error
	untag func(ctx context.Context, c C, o object, keys []string) error
}

// tagFields are the arguments about tags.
func tagFields() map[string]field {
	return map[string]field{"tags": optionalField(textMap), "tags_all": {shape: textMap, changes: true}}
}

func (k kind[C]) fieldTable() map[string]field {
	all := mergeTables(map[string]field{"id": computedField(text)}, k.fields)
	if k.tag != nil {
		maps.Copy(all, tagFields())
	}
	return all
}

// managed is a kind as the framework wants it.
type managed[C any] struct {
	kind[C]
	client   C
	defaults map[string]string // tags of the provider
}

// configured is what a provider gives its resources.
type configured[C any] struct {
	client C
	tags   map[string]string
}

func (m *managed[C]) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = m.name
}

func (m *managed[C]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: schemaAttributes(m.fieldTable()), Blocks: schemaBlocks(m.blocks)}
}

func (m *managed[C]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if given, ok := req.ProviderData.(configured[C]); ok {
		m.client, m.defaults = given.client, given.tags
	}
}

func (m *managed[C]) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	o, err := read(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Configuration of "+m.name, err.Error())
		return
	}
	checkBlocks(m.blocks, o, func(name, problem string) {
		resp.Diagnostics.AddAttributeError(path.Root(name), "Number of blocks", problem)
	})
}

// ModifyPlan says which tags there will be.
func (m *managed[C]) ModifyPlan(_ context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if m.tag == nil || req.Plan.Raw.IsNull() {
		return
	}
	o, err := read(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Plan of "+m.name, err.Error())
		return
	}
	if _, later := o["tags"].(unknown); later {
		return // so are all tags
	}
	all := object{}
	for key, value := range m.defaults {
		all[key] = value
	}
	if tags, given := o["tags"].(object); given {
		maps.Copy(all, tags)
	}
	value, err := toProtocol(tftypes.Map{ElementType: tftypes.String}, all)
	if err != nil {
		resp.Diagnostics.AddError("Tags of "+m.name, err.Error())
		return
	}
	raw, err := tftypes.Transform(resp.Plan.Raw, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if at.Equal(tftypes.NewAttributePath().WithAttributeName("tags_all")) {
			return value, nil
		}
		return v, nil
	})
	if err != nil {
		resp.Diagnostics.AddError("Tags of "+m.name, err.Error())
		return
	}
	resp.Plan.Raw = raw
}

func (m *managed[C]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx = context.WithoutCancel(ctx)
	planned, err := read(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Plan of "+m.name, err.Error())
		return
	}
	o := withoutUnknown(planned)
	err = m.create(ctx, m.client, o)
	if err != nil && o.stringValue("id") == "" {
		resp.Diagnostics.AddError("Creating "+m.name, err.Error())
		return
	}
	if err == nil {
		err = m.read(ctx, m.client, o)
	}
	if err != nil { // what there is of it is replaced by the next apply
		resp.Diagnostics.AddError("Creating "+m.name+" "+o.stringValue("id"), err.Error())
	}
	m.save(planned, o, &resp.State, &resp.Diagnostics)
}

func (m *managed[C]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	was, err := read(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("State of "+m.name, err.Error())
		return
	}
	o := maps.Clone(was)
	if err := m.read(ctx, m.client, o); err != nil {
		if errors.Is(err, errGone) {
			resp.State.RemoveResource(ctx)
			return
		}
		resp.Diagnostics.AddError("Reading "+m.name+" "+was.stringValue("id"), err.Error())
		return
	}
	m.readTags(o)
	found, _ := plainValue(o).(object)
	m.save(m.keepEquivalent(was, found), nil, &resp.State, &resp.Diagnostics)
}

// readTags tells the tags of the provider from those of the resource: read gives all as tags_all.
func (m *managed[C]) readTags(o object) {
	if m.tag == nil {
		return
	}
	own := object{}
	all, _ := plainValue(o["tags_all"]).(object)
	for key, value := range all {
		if m.defaults[key] != value {
			own[key] = value
		}
	}
	o["tags"] = own
}

// keepEquivalent keeps the text of the state where what AWS has means the same.
func (m *managed[C]) keepEquivalent(was, found object) object {
	out := maps.Clone(found)
	for name, f := range m.fieldTable() {
		if was[name] == nil && isEmpty(found[name]) && !f.isComputed() {
			out[name] = nil
		}
		if f.json && sameJSON(was.stringValue(name), found.stringValue(name)) {
			out[name] = was[name]
		}
	}
	for name, b := range m.blocks {
		out[name] = b.keepEquivalent(was.blockValues(name), found.blockValues(name))
	}
	return out
}

// keepEquivalent does the same for blocks. Those that the user left out stay out: AWS has its own ideas then.
func (b block) keepEquivalent(was, found []object) []any {
	out := []any{}
	if len(was) == 0 && !b.set {
		return out
	}
	for i, one := range found {
		kept := maps.Clone(one)
		for name, f := range b.fields {
			left := b.set || i >= len(was) || was[i][name] == nil
			if !f.isComputed() && left && (isEmpty(one[name]) || !b.set && i < len(was)) {
				kept[name] = nil
			}
		}
		for name, inner := range b.blocks {
			var before []object
			if i < len(was) {
				before = was[i].blockValues(name)
			}
			kept[name] = inner.keepEquivalent(before, one.blockValues(name))
		}
		out = append(out, kept)
	}
	return out
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func (m *managed[C]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	ctx = context.WithoutCancel(ctx)
	planned, err := read(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Plan of "+m.name, err.Error())
		return
	}
	was, err := read(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("State of "+m.name, err.Error())
		return
	}
	o := withoutUnknown(planned)
	o["id"] = was["id"]
	if m.update != nil {
		err = m.update(ctx, m.client, was, o)
	}
	if err == nil && m.tag != nil {
		err = m.updateTags(ctx, was, o)
	}
	if err == nil {
		err = m.read(ctx, m.client, o)
	}
	if err != nil {
		resp.Diagnostics.AddError("Updating "+m.name+" "+was.stringValue("id"), err.Error())
		return
	}
	m.save(planned, o, &resp.State, &resp.Diagnostics)
}

func (m *managed[C]) updateTags(ctx context.Context, was, o object) error {
	before, after := was.textMap("tags_all"), o.textMap("tags_all")
	set, unset := map[string]string{}, []string{}
	for key, value := range after {
		if old, found := before[key]; !found || old != value {
			set[key] = value
		}
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			unset = append(unset, key)
		}
	}
	slices.Sort(unset)
	if len(unset) > 0 {
		if err := m.untag(ctx, m.client, o, unset); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	return m.tag(ctx, m.client, o, set)
}

func (m *managed[C]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx = context.WithoutCancel(ctx)
	o, err := read(req.State.Raw)
	if err == nil {
		err = m.remove(ctx, m.client, o)
	}
	if err != nil && !errors.Is(err, errGone) {
		resp.Diagnostics.AddError("Deleting "+m.name+" "+o.stringValue("id"), err.Error())
	}
}

// save writes the state: what was planned, completed by what was found.
func (m *managed[C]) save(planned, found object, state *tfsdk.State, problems *diag.Diagnostics) {
	merged := fillUnknown(planned, plainValue(found))
	raw, err := toProtocol(state.Schema.Type().TerraformType(context.Background()), merged)
	if err != nil {
		problems.AddError("State of "+m.name, err.Error())
		return
	}
	state.Raw = raw
}

// read reads a whole resource.
func read(raw tftypes.Value) (object, error) {
	v, err := toGo(raw)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", v)
	}
	return o, nil
}

// withoutUnknown is a copy without what is not known yet.
func withoutUnknown(o object) object {
	out := object{}
	for key, v := range o {
		out[key] = knownValue(v)
	}
	return out
}

func knownValue(v any) any {
	switch value := v.(type) {
	case unknown:
		return nil
	case object:
		return withoutUnknown(value)
	case []any:
		out := []any{}
		for _, one := range value {
			out = append(out, knownValue(one))
		}
		return out
	}
	return v
}

// lookup is a type of data source.
type lookup[C any] struct {
	name   string
	fields map[string]field
	blocks map[string]block
	find   func(ctx context.Context, c C, o object) error
}

type source[C any] struct {
	lookup[C]
	client C
}

func (s *source[C]) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = s.name
}

func (s *source[C]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	fields := mergeTables(map[string]field{"id": computedField(text)}, s.fields)
	resp.Schema = dataschema.Schema{Attributes: dataAttributes(fields), Blocks: dataBlocks(s.blocks)}
}

func (s *source[C]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if given, ok := req.ProviderData.(configured[C]); ok {
		s.client = given.client
	}
}

func (s *source[C]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	o, err := read(req.Config.Raw)
	if err == nil {
		checkBlocks(s.blocks, o, func(_, problem string) { err = errors.New(problem) })
	}
	if err == nil {
		err = s.find(ctx, s.client, o)
	}
	if err != nil {
		resp.Diagnostics.AddError("Reading "+s.name, err.Error())
		return
	}
	raw, err := toProtocol(resp.State.Schema.Type().TerraformType(ctx), plainValue(o))
	if err != nil {
		resp.Diagnostics.AddError("Result of "+s.name, err.Error())
		return
	}
	resp.State.Raw = raw
}
