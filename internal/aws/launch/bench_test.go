package launch

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// sevenHundred are types with two markets in each of two zones; they differ in how many pods they take,
// and so in their launch templates.
func sevenHundred() (list []catalog.InstanceType, names []string) {
	for n := range 700 {
		price := float64(n+1) / 100
		t := kind(fmt.Sprintf("m%d.%dxlarge", n/10, n%10), onDemand("a", price), onDemand("b", price), spot("a", price/2), spot("b", price/3))
		t.Capacity = resources.Add(t.Capacity, lanes().Capacity(corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity([]int64{0, 29, 81, 205}[n%4], resource.DecimalSI)}))
		list, names = append(list, t), append(names, t.Name)
	}
	return list, names
}

// BenchmarkPrepare is what a launch costs before EC2 is queried: a thousand come at once, and most of them
// are alike.
func BenchmarkPrepare(b *testing.B) {
	list, names := sevenHundred()
	l := newFixture(b, list...)
	claim := nodeClaim("one", in(karpv1.LabelCapacityType, "spot", "on-demand"), in(corev1.LabelInstanceTypeStable, names[:600]...))
	r := l.request(claim)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		alike := claim.DeepCopy()
		alike.UID = types.UID(fmt.Sprint(n))
		r.Claim = alike
		w, err := readClaim(alike, lanes())
		if err != nil {
			b.Fatal(err)
		}
		t, err := l.prepareTicket(b.Context(), r, w)
		if err != nil {
			b.Fatal(err)
		}
		l.releaseTicket(t, "")
	}
}
