package main

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"slices"
	"strconv"
)

// policyDocument writes a policy document from blocks.
func policyDocument() lookup[*cloud] {
	principals := block{set: true, fields: map[string]field{"type": required(text), "identifiers": required(textSet)}}
	return lookup[*cloud]{
		name:   "aws_iam_policy_document",
		fields: map[string]field{"policy_id": optional(text), "version": either(text), "json": computed(text), "minified_json": computed(text)},
		blocks: map[string]block{"statement": {
			fields: map[string]field{
				"sid": optional(text), "effect": optional(text), "actions": optional(textSet), "not_actions": optional(textSet), "resources": optional(textSet), "not_resources": optional(textSet),
			},
			blocks: map[string]block{
				"principals": principals, "not_principals": principals,
				"condition": {set: true, fields: map[string]field{"test": required(text), "variable": required(text), "values": required(texts)}},
			},
		}},
		find: findDocument,
	}
}

// statement has the members in the order in which the real provider writes them.
type statement struct {
	Sid          string         `json:",omitempty"`
	Effect       string         `json:",omitempty"`
	Action       any            `json:",omitempty"`
	NotAction    any            `json:",omitempty"`
	Resource     any            `json:",omitempty"`
	NotResource  any            `json:",omitempty"`
	Principal    any            `json:",omitempty"`
	NotPrincipal any            `json:",omitempty"`
	Condition    map[string]any `json:",omitempty"`
}

func findDocument(_ context.Context, _ *cloud, o object) error {
	if !o.has("version") {
		o["version"] = "2012-10-17"
	}
	out := struct {
		Version   string
		ID        string `json:"Id,omitempty"`
		Statement []statement
	}{Version: o.text("version"), ID: o.text("policy_id")}
	for _, s := range o.blocks("statement") {
		effect := s.text("effect")
		if effect == "" {
			effect = "Allow"
		}
		out.Statement = append(out.Statement, statement{
			Sid: s.text("sid"), Effect: effect, Action: oneOrMany(s.texts("actions")), NotAction: oneOrMany(s.texts("not_actions")),
			Resource: oneOrMany(s.texts("resources")), NotResource: oneOrMany(s.texts("not_resources")),
			Principal: principalsOf(s.blocks("principals")), NotPrincipal: principalsOf(s.blocks("not_principals")), Condition: conditionsOf(s.blocks("condition")),
		})
	}
	pretty, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	short, err := json.Marshal(out)
	if err != nil {
		return err
	}
	o["id"], o["json"], o["minified_json"] = strconv.FormatUint(uint64(crc32.ChecksumIEEE(pretty)), 10), string(pretty), string(short)
	return nil
}

// oneOrMany is how policies write a list of one.
func oneOrMany(list []string) any {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return sorted
}

func principalsOf(blocks []object) any {
	out := map[string]any{}
	for _, b := range blocks {
		out[b.text("type")] = oneOrMany(b.texts("identifiers"))
	}
	if len(out) == 0 {
		return nil
	}
	if len(out) == 1 && out["*"] == "*" {
		return "*"
	}
	return out
}

func conditionsOf(blocks []object) map[string]any {
	out := map[string]any{}
	for _, b := range blocks {
		test, _ := out[b.text("test")].(map[string]any)
		if test == nil {
			test = map[string]any{}
			out[b.text("test")] = test
		}
		test[b.text("variable")] = oneOrMany(b.texts("values"))
	}
	return out
}
