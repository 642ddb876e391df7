package main

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
)

// A default of the schema, or none; each type has its own.

func defaultText(v any) defaults.String {
	if s, ok := v.(string); ok {
		return stringdefault.StaticString(s)
	}
	return nil
}

func defaultNumber(v any) defaults.Int64 {
	if n, ok := v.(int64); ok {
		return int64default.StaticInt64(n)
	}
	return nil
}

func defaultFlag(v any) defaults.Bool {
	if b, ok := v.(bool); ok {
		return booldefault.StaticBool(b)
	}
	return nil
}
