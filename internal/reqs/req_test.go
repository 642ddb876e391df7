package reqs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

const maxInt = "9223372036854775807"

func TestNew(t *testing.T) {
	t.Parallel()
	lo := func(n int64) reqs.Bounds { return reqs.Bounds{Lo: n, HasLo: true} }
	hi := func(n int64) reqs.Bounds { return reqs.Bounds{Hi: n, HasHi: true} }
	for name, tc := range map[string]struct {
		op     corev1.NodeSelectorOperator
		values []string
		min    int
		want   reqs.Req
	}{
		"API-2.2 In is sorted and distinct":             {op: opIn, values: []string{"b", "a", "b"}, min: 2, want: reqs.Req{Values: []string{"a", "b"}, MinValues: 2}},
		"API-2.2 the empty string is a value":           {op: opIn, values: []string{""}, want: reqs.Req{Values: []string{""}}},
		"API-2.2 NotIn excludes":                        {op: opNotIn, values: []string{"x"}, want: reqs.Req{Not: true, Values: []string{"x"}}},
		"API-2.2 NotIn without values is Exists":        {op: opNotIn, want: reqs.Req{Not: true}},
		"API-2.2 Exists ignores values":                 {op: opExists, values: []string{"x"}, want: reqs.Req{Not: true}},
		"API-2.2 DoesNotExist ignores values":           {op: opDoesNotExist, values: []string{"x"}, want: reqs.Req{}},
		"API-2.2 Gt n is n+1 inclusive":                 {op: opGt, values: []string{"2"}, want: reqs.Req{Not: true, Bounds: lo(3)}},
		"API-2.2 Gte n is n":                            {op: reqs.OpGte, values: []string{"2"}, want: reqs.Req{Not: true, Bounds: lo(2)}},
		"API-2.2 Lt n is n-1 inclusive":                 {op: opLt, values: []string{"2"}, want: reqs.Req{Not: true, Bounds: hi(1)}},
		"API-2.2 Lte n is n":                            {op: reqs.OpLte, values: []string{"2"}, want: reqs.Req{Not: true, Bounds: hi(2)}},
		"API-2.2 Lt zero keeps a bound below all":       {op: opLt, values: []string{"0"}, want: reqs.Req{Not: true, Bounds: hi(-1)}},
		"FEAT-12 Gt of the largest int matches nothing": {op: opGt, values: []string{maxInt}, want: reqs.Req{}},
		"FEAT-12 Lte of the largest int is a bound":     {op: reqs.OpLte, values: []string{maxInt}, want: reqs.Req{Not: true, Bounds: hi(9223372036854775807)}},
		"leading zeros and a sign read as the number":   {op: reqs.OpGte, values: []string{"+007"}, want: reqs.Req{Not: true, Bounds: lo(7)}},
		"SC-42 In may list fewer values than minValues": {op: opIn, values: []string{"a"}, min: 3, want: reqs.Req{Values: []string{"a"}, MinValues: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reqs.New(tc.op, tc.values, tc.min)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("New() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op       corev1.NodeSelectorOperator
		values   []string
		min      int
		want     reqs.Kind
		wantText string
	}{
		"NP-01 In without values":            {op: opIn, want: reqs.ValuesMissing, wantText: "operator In has no values; give it at least one value, or use Exists to allow any"},
		"NP-02 Gt without a value":           {op: opGt, want: reqs.ValuesMissing, wantText: "operator Gt has 0 values; give it exactly one whole number of zero or more"},
		"NP-02 Lte with two values":          {op: reqs.OpLte, values: []string{"1", "2"}, want: reqs.ValuesMissing, wantText: "operator Lte has 2 values; give it exactly one whole number of zero or more"},
		"NP-02 Gte of a word":                {op: reqs.OpGte, values: []string{"many"}, want: reqs.ValueNotInteger, wantText: `operator Gte has "many"; give it exactly one whole number of zero or more`},
		"NP-02 Lt of a negative number":      {op: opLt, values: []string{"-1"}, want: reqs.ValueNotInteger, wantText: `operator Lt has "-1"; give it exactly one whole number of zero or more`},
		"NP-02 Gt past 64 bits":              {op: opGt, values: []string{"9223372036854775808"}, want: reqs.ValueNotInteger, wantText: `operator Gt has "9223372036854775808"; give it exactly one whole number of zero or more`},
		"NP-02 Gt of a fraction":             {op: opGt, values: []string{"1.5"}, want: reqs.ValueNotInteger, wantText: `operator Gt has "1.5"; give it exactly one whole number of zero or more`},
		"L-02 empty operator is for callers": {op: "", values: []string{"a"}, want: reqs.OperatorUnknown, wantText: `operator "" is unknown; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte`},
		"API-3.2 unknown operator":           {op: "in", values: []string{"a"}, want: reqs.OperatorUnknown, wantText: `operator "in" is unknown; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte`},
		"API-2.2 minValues below zero":       {op: opExists, min: -1, want: reqs.MinValuesNegative, wantText: "minValues is -1; use a number of 1 or more, or leave it out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reqs.New(tc.op, tc.values, tc.min)
			fault, typed := errors.AsType[*reqs.Fault](err)
			if !typed {
				t.Fatalf("New() = %v, %v; want a Fault", got, err)
			}
			if fault.Kind != tc.want || fault.Error() != tc.wantText {
				t.Errorf("New() fails with %s: %s\nwant %s: %s", fault.Kind, fault, tc.want, tc.wantText)
			}
		})
	}
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	type in struct {
		op     corev1.NodeSelectorOperator
		values string
	}
	for name, tc := range map[string]struct {
		of   []in
		want string
	}{
		"API-2.2 finite and finite: common values":           {of: []in{{opIn, "a b c"}, {opIn, "c b d"}}, want: "In [b c]"},
		"API-2.2 nothing in common is DoesNotExist":          {of: []in{{opIn, "a"}, {opIn, "b"}}, want: "DoesNotExist"},
		"API-2.2 finite minus excluded":                      {of: []in{{opIn, "a b c"}, {opNotIn, "b x"}}, want: "In [a c]"},
		"API-2.2 complements unite their exclusions":         {of: []in{{opNotIn, "b a"}, {opNotIn, "c b"}}, want: "NotIn [a b c]"},
		"API-2.2 bounds tighten":                             {of: []in{{opGt, "2"}, {reqs.OpGte, "1"}, {opLt, "9"}, {reqs.OpLte, "9"}}, want: ">= 3, <= 8"},
		"API-2.2 lo above hi is DoesNotExist":                {of: []in{{opGt, "8"}, {opLt, "4"}}, want: "DoesNotExist"},
		"API-2.2 Gt 3 and Lt 4 leave no integer":             {of: []in{{opGt, "3"}, {opLt, "4"}}, want: "DoesNotExist"},
		"API-2.2 a finite result drops its bounds":           {of: []in{{opIn, "1 2 3 x"}, {opGt, "1"}}, want: "In [2 3]"},
		"API-2.2 out-of-bound exclusions are removed":        {of: []in{{opNotIn, "1 5 x"}, {opGt, "3"}}, want: "NotIn [5], >= 4"},
		"API-2.2 with none left the operator is Exists":      {of: []in{{opNotIn, "1 x"}, {opGt, "3"}}, want: ">= 4"},
		"API-2.2 excluding the only integer stays a NotIn":   {of: []in{{opNotIn, "4"}, {opGt, "3"}, {opLt, "5"}}, want: "NotIn [4], >= 4, <= 4"},
		"API-2.2 DoesNotExist wins":                          {of: []in{{opDoesNotExist, ""}, {opExists, ""}, {opNotIn, "a"}}, want: "DoesNotExist"},
		"FEAT-12 non-integers never satisfy a bound":         {of: []in{{opIn, "a 3.0 9223372036854775808"}, {reqs.OpGte, "0"}}, want: "DoesNotExist"},
		"text decides membership, the number decides bounds": {of: []in{{opIn, "007 7 8"}, {opNotIn, "7"}, {reqs.OpLte, "7"}}, want: "In [007]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reqs.Req{Not: true}
			for _, r := range tc.of {
				got = got.Intersect(req(t, r.op, strings.Fields(r.values)...))
			}
			if got.String() != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	four := req(t, opGt, "3").Intersect(req(t, opLt, "5"))
	for name, tc := range map[string]struct {
		a, b reqs.Req
		want bool
	}{
		"API-2.2 two complements always overlap":         {a: req(t, opNotIn, "a"), b: req(t, opNotIn, "b"), want: true},
		"API-2.2 unless their bounds contradict":         {a: req(t, opGt, "5"), b: req(t, opLt, "5"), want: false},
		"API-2.2 even if exclusions cover the range":     {a: req(t, opNotIn, "4"), b: four, want: true},
		"API-2.2 finite inside the bounds":               {a: req(t, opIn, "4"), b: four, want: true},
		"API-2.2 finite outside the bounds":              {a: req(t, opIn, "5", "x"), b: four, want: false},
		"API-2.2 finite and its exclusion":               {a: req(t, opIn, "a"), b: req(t, opNotIn, "a"), want: false},
		"API-2.2 DoesNotExist does not overlap itself":   {a: reqs.Req{}, b: reqs.Req{}, want: false},
		"API-2.2 DoesNotExist does not overlap a NotIn":  {a: reqs.Req{}, b: req(t, opNotIn, "a"), want: false},
		"FEAT-12 Gt of the largest int overlaps nothing": {a: req(t, opGt, maxInt), b: req(t, opExists), want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.a.Overlaps(tc.b) != tc.want || tc.b.Overlaps(tc.a) != tc.want {
				t.Errorf("(%v).Overlaps(%v) = %t, mirrored %t, want %t", tc.a, tc.b, tc.a.Overlaps(tc.b), tc.b.Overlaps(tc.a), tc.want)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		r    reqs.Req
		want []reqs.Entry
	}{
		"API-2.2 Gt 2 shows up as Gte 3": {
			r:    req(t, opGt, "2"),
			want: []reqs.Entry{{Key: "k", Operator: reqs.OpGte, Values: []string{"3"}}},
		},
		"API-2.2 both bounds and a NotIn, minValues on each": {
			r: req(t, opGt, "2").Intersect(req(t, opLt, "9")).Intersect(req(t, opNotIn, "5")).WithMinValues(2),
			want: []reqs.Entry{
				{Key: "k", Operator: opNotIn, Values: []string{"5"}, MinValues: 2},
				{Key: "k", Operator: reqs.OpGte, Values: []string{"3"}, MinValues: 2},
				{Key: "k", Operator: reqs.OpLte, Values: []string{"8"}, MinValues: 2},
			},
		},
		"NP-02 Lt 0 is not written as a negative Lte": {
			r:    req(t, opLt, "0"),
			want: []reqs.Entry{{Key: "k", Operator: opLt, Values: []string{"0"}}},
		},
		"API-2.2 Exists":       {r: req(t, opExists), want: []reqs.Entry{{Key: "k", Operator: opExists}}},
		"API-2.2 DoesNotExist": {r: reqs.Req{}, want: []reqs.Entry{{Key: "k", Operator: opDoesNotExist}}},
		"API-2.2 In":           {r: req(t, opIn, "b", "a"), want: []reqs.Entry{{Key: "k", Operator: opIn, Values: []string{"a", "b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.r.Requirements("k")); diff != "" {
				t.Errorf("Requirements() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]reqs.Req{
		"In [a b]":                            req(t, opIn, "b", "a"),
		"Exists, minValues 2":                 must(t, opExists, nil, 2),
		"NotIn [7], >= 3":                     req(t, opNotIn, "7").Intersect(req(t, opGt, "2")),
		"<= -1":                               req(t, opLt, "0"),
		"DoesNotExist":                        {},
		"In [0 1 2 3 4 5 6 7 8 9 and 2 more]": req(t, opIn, strings.Split("0123456789ab", "")...),
	} {
		if got := r.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestDecodingNormalizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"values":["b","a","b"]}`:                                                      "In [a b]",
		`{"values":["1","9"],"bounds":{"lo":5,"hasLo":true}}`:                           "In [9]",
		`{"not":true,"values":["1"],"bounds":{"lo":5,"hi":3}}`:                          "NotIn [1]",
		`{"not":true,"bounds":{"lo":5,"hi":3,"hasLo":true,"hasHi":true}}`:               "DoesNotExist",
		`{"not":true,"values":["x","7"],"minValues":-3,"bounds":{"lo":5,"hasLo":true}}`: "NotIn [7], >= 5",
	} {
		var r reqs.Req
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.String() != want {
			t.Errorf("%s reads %q, %v; want %q", text, r, err, want)
		}
	}
	var r reqs.Req
	if err := json.Unmarshal([]byte(`{"values":7}`), &r); err == nil {
		t.Error("values that are no list were accepted")
	}
}
