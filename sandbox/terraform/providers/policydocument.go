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
	principals := block{set: true, fields: map[string]field{"type": requiredField(text), "identifiers": requiredField(textSet)}}
	return lookup[*cloud]{
		name:   "aws_iam_policy_document",
		fields: map[string]field{"policy_id": optionalField(text), "version": optionalComputed(text), "json": computedField(text), "minified_json": computedField(text)},
		blocks: map[string]block{"statement": {
			fields: map[string]field{
				"sid": optionalField(text), "effect": optionalField(text), "actions": optionalField(textSet), "not_actions": optionalField(textSet), "resources": optionalField(textSet), "not_resources": optionalField(textSet),
			},
			blocks: map[string]block{
				"principals": principals, "not_principals": principals,
				"condition": {set: true, fields: map[string]field{"test": requiredField(text), "variable": requiredField(text), "values": requiredField(texts)}},
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
	}{Version: o.stringValue("version"), ID: o.stringValue("policy_id")}
	for _, s := range o.blockValues("statement") {
		effect := s.stringValue("effect")
		if effect == "" {
			effect = "Allow"
		}
		out.Statement = append(out.Statement, statement{
			Sid: s.stringValue("sid"), Effect: effect, Action: oneOrMany(s.stringValues("actions")), NotAction: oneOrMany(s.stringValues("not_actions")),
			Resource: oneOrMany(s.stringValues("resources")), NotResource: oneOrMany(s.stringValues("not_resources")),
			Principal: principalsOf(s.blockValues("principals")), NotPrincipal: principalsOf(s.blockValues("not_principals")), Condition: conditionsOf(s.blockValues("condition")),
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
		out[b.stringValue("type")] = oneOrMany(b.stringValues("identifiers"))
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
		test, _ := out[b.stringValue("test")].(map[string]any)
		if test == nil {
			test = map[string]any{}
			out[b.stringValue("test")] = test
		}
		test[b.stringValue("variable")] = oneOrMany(b.stringValues("values"))
	}
	return out
}
