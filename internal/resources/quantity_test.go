package resources

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Exponents that are legal and that the library would compute powers of ten for: hours, and all memory.
func TestExtremeQuantitiesSaturate(t *testing.T) {
	t.Parallel()
	unbounded := func(digits int64, exponent resource.Scale) resource.Quantity {
		return *resource.NewScaledQuantity(digits, exponent).ToDec()
	}
	for name, tc := range map[string]struct {
		quantity     resource.Quantity
		wantDown, up int64
	}{
		"a huge number":             {resource.MustParse("1e99999999"), math.MaxInt64, math.MaxInt64},
		"the hugest number":         {resource.MustParse("9e2147483646"), math.MaxInt64, math.MaxInt64},
		"a huge debt":               {resource.MustParse("-1e99999999"), math.MinInt64, math.MinInt64},
		"a huge number, unbounded":  {unbounded(1, 99999999), math.MaxInt64, math.MaxInt64},
		"a huge debt, unbounded":    {unbounded(-1, 99999999), math.MinInt64, math.MinInt64},
		"a tiny number":             {*resource.NewScaledQuantity(1, -99999999), 0, 1},
		"a tiny number, unbounded":  {unbounded(1, -99999999), 0, 1},
		"a tiny debt, unbounded":    {unbounded(-1, -99999999), -1, 0},
		"no number, huge exponent":  {resource.MustParse("0e2147483646"), 0, 0},
		"no number, unbounded form": {unbounded(0, 99999999), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				list := corev1.ResourceList{"cpu": tc.quantity, "memory": tc.quantity}
				table := Table{}
				if got, want := table.Capacity(list), Of(tc.wantDown, tc.wantDown); !got.Equal(want) {
					t.Errorf("Capacity() = %v, want %v", got, want)
				}
				if got, want := table.Requests(list), Of(tc.up, tc.up); !got.Equal(want) {
					t.Errorf("Requests() = %v, want %v", got, want)
				}
				if got := Whole(tc.quantity); got != tc.wantDown {
					t.Errorf("Whole() = %d, want %d", got, tc.wantDown)
				}
			}()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatal("still at it after twenty seconds")
			}
		})
	}
}
