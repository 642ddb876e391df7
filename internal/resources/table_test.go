package resources

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestTableOrderIsThatOfNames(t *testing.T) {
	t.Parallel()
	one := NewTable("b", "a", "cpu", "c", "a")
	two := NewTable("c", "b", "a")
	if diff := cmp.Diff(one.names, two.names); diff != "" {
		t.Errorf("names depend on the order given:\n%s", diff)
	}
	if lane, known := one.Lane("b"); lane != named+1 || !known {
		t.Errorf("Lane(b) = %d, %v", lane, known)
	}
	if lane, known := one.Lane("z"); lane != Unknown || known {
		t.Errorf("Lane(z) = %d, %v", lane, known)
	}
}

func TestExtendKeepsLanes(t *testing.T) {
	t.Parallel()
	small := NewTable("m")
	v := small.Requests(list("m", "3"))
	large := small.Extend("z", "a", "m", "memory")
	if got, want := large.Format(v), "m:3"; got != want {
		t.Errorf("Format() = %q, want %q", got, want)
	}
	if got, want := large.Len(), named+3; got != want {
		t.Errorf("Len() = %d, want %d", got, want)
	}
	if small.Len() != named+1 {
		t.Error("Extend changed its receiver")
	}
}

func TestConversionRounds(t *testing.T) {
	t.Parallel()
	table := NewTable("nvidia.com/gpu")
	for name, tc := range map[string]struct {
		resource                  corev1.ResourceName
		quantity                  string
		wantRequest, wantCapacity int64
	}{
		"whole cores":                          {resource: "cpu", quantity: "3", wantRequest: 3000, wantCapacity: 3000},
		"thousandths of a core":                {resource: "cpu", quantity: "250m", wantRequest: 250, wantCapacity: 250},
		"a fraction of a thousandth":           {resource: "cpu", quantity: "1500u", wantRequest: 2, wantCapacity: 1},
		"the smallest quantity":                {resource: "cpu", quantity: "1n", wantRequest: 1, wantCapacity: 0},
		"the smallest negative quantity":       {resource: "cpu", quantity: "-1n", wantRequest: 0, wantCapacity: -1},
		"a negative fraction":                  {resource: "cpu", quantity: "-1500u", wantRequest: -1, wantCapacity: -2},
		"binary suffix":                        {resource: "memory", quantity: "2Gi", wantRequest: 2 << 30, wantCapacity: 2 << 30},
		"decimal exponent":                     {resource: "memory", quantity: "1e3", wantRequest: 1000, wantCapacity: 1000},
		"bytes written as thousandths":         {resource: "memory", quantity: "128974848000m", wantRequest: 128974848, wantCapacity: 128974848},
		"half a byte":                          {resource: "memory", quantity: "1500m", wantRequest: 2, wantCapacity: 1},
		"a binary fraction":                    {resource: "ephemeral-storage", quantity: "0.1Ki", wantRequest: 103, wantCapacity: 102},
		"cores beyond 64 bits saturate":        {resource: "cpu", quantity: "9E", wantRequest: math.MaxInt64, wantCapacity: math.MaxInt64},
		"bytes beyond 64 bits saturate":        {resource: "memory", quantity: "9223372036854775808", wantRequest: math.MaxInt64, wantCapacity: math.MaxInt64},
		"cores far below zero saturate":        {resource: "cpu", quantity: "-9E", wantRequest: math.MinInt64, wantCapacity: math.MinInt64},
		"extended resources are whole numbers": {resource: "nvidia.com/gpu", quantity: "8", wantRequest: 8, wantCapacity: 8},
		"zero":                                 {resource: "nvidia.com/gpu", quantity: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lane, _ := table.Lane(tc.resource)
			given := list(tc.resource, tc.quantity)
			if got := table.Requests(given).At(lane); got != tc.wantRequest {
				t.Errorf("Requests() = %d, want %d", got, tc.wantRequest)
			}
			if got := table.Capacity(given).At(lane); got != tc.wantCapacity {
				t.Errorf("Capacity() = %d, want %d", got, tc.wantCapacity)
			}
		})
	}
}

// The fast conversion against exact arithmetic, over quantities in both of the library's forms.
func TestUnitsAgreesWithExactArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.Int64().Draw(t, "digits")
		scale := rapid.Int32Range(-9, 24).Draw(t, "scale")
		lane := rapid.SampledFrom([]int{CPU, Memory}).Draw(t, "lane")
		quantity := *resource.NewScaledQuantity(digits, resource.Scale(scale))
		if rapid.Bool().Draw(t, "decimal") {
			quantity.ToDec()
		}
		exact := new(big.Rat).SetInt64(digits)
		ten := new(big.Rat).SetInt64(10)
		for range max(scale, -scale) {
			if scale > 0 {
				exact.Mul(exact, ten)
			} else {
				exact.Quo(exact, ten)
			}
		}
		if lane == CPU {
			exact.Mul(exact, new(big.Rat).SetInt64(1000))
		}
		floor := new(big.Int).Div(exact.Num(), exact.Denom())
		ceil := new(big.Int).Set(floor)
		if !exact.IsInt() {
			ceil.Add(ceil, big.NewInt(1))
		}
		if got, want := units(quantity, lane, down), clamp(floor); got != want {
			t.Fatalf("%s rounded down is %d, want %d", quantity.String(), got, want)
		}
		if got, want := units(quantity, lane, up), clamp(ceil); got != want {
			t.Fatalf("%s rounded up is %d, want %d", quantity.String(), got, want)
		}
	})
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	requested := corev1.ResourceList{"a/x": resource.MustParse("2"), "b/y": resource.MustParse("3"), "c/z": resource.MustParse("0")}
	if got, want := (Table{}).Requests(requested), vec(0, 0, 0, 0, 5); !got.Equal(want) {
		t.Errorf("Requests() = %v, want %v", got, want)
	}
	if got := (Table{}).Capacity(requested); !got.IsZero() {
		t.Errorf("Capacity() = %v, want none", got)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	table := NewTable("z.io/late").Extend("a.io/early", "hugepages-2Mi")
	v := table.Requests(corev1.ResourceList{
		"cpu": resource.MustParse("1.5"), "memory": resource.MustParse("2Gi"), "pods": resource.MustParse("1"),
		"z.io/late": resource.MustParse("1"), "a.io/early": resource.MustParse("2"), "hugepages-2Mi": resource.MustParse("4Mi"),
	})
	if got, want := table.Format(v), "cpu:1500m,memory:2Gi,pods:1,a.io/early:2,hugepages-2Mi:4Mi,z.io/late:1"; got != want {
		t.Errorf("Format() = %q\nwant       %q", got, want)
	}
	if got, want := v.String(), "cpu:1500m,memory:2Gi,pods:1,#5:1,#6:2,#7:4194304"; got != want {
		t.Errorf("String() = %q\nwant       %q", got, want)
	}
	if got, want := (Vec{}).String(), "none"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestListComesBack(t *testing.T) {
	t.Parallel()
	table := NewTable("x/a", "hugepages-1Gi")
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.SliceOfN(rapid.Int64(), 0, table.Len()).Draw(t, "lanes")
		if len(lanes) > Unknown {
			lanes[Unknown] = 0
		}
		v := vec(lanes...)
		converted := table.List(v)
		if got := table.Requests(converted); !got.Equal(v) {
			t.Fatalf("Requests(List(v)) = %v, want %v", got, v)
		}
		if got := table.Capacity(converted); !got.Equal(v) {
			t.Fatalf("Capacity(List(v)) = %v, want %v", got, v)
		}
	})
}

func TestTableSurvivesJSON(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]Table{
		"without names":        {},
		"in order of arrival":  NewTable("z").Extend("a"),
		"in order of the name": NewTable("z", "a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(table)
			var back Table
			if err == nil {
				err = json.Unmarshal(text, &back)
			}
			if err != nil {
				t.Fatal(err)
			}
			for lane := range table.Len() {
				if back.Name(lane) != table.Name(lane) {
					t.Errorf("lane %d is %q, want %q", lane, back.Name(lane), table.Name(lane))
				}
			}
		})
	}
}

func list(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

func clamp(n *big.Int) int64 {
	if !n.IsInt64() {
		return limit(n.Sign() < 0)
	}
	return n.Int64()
}
