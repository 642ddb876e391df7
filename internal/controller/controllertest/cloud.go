package controllertest

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Catalogue has the same two instance types for every pool.
type Catalogue struct {
	Err   error
	None  bool // no offering is available
	Panic bool
}

// Types returns the instance types.
func (s *Catalogue) Types(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	if s.Panic {
		panic("a bad object")
	}
	if s.Err != nil {
		return nil, s.Err
	}
	lanes := resources.NewTable()
	var out []catalog.InstanceType
	for name, cpu := range map[string]string{"small": "2", "large": "8"} {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
		size := lanes.Capacity(list)
		price := map[string]float64{"small": 0.1, "large": 0.35}[name]
		out = append(out, catalog.InstanceType{
			Name: name, Capacity: size,
			Labels:    reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: "amd64"}, awsv1.Vocabulary()),
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: karpv1.CapacityTypeOnDemand, Price: price, Available: !s.None}},
		})
	}
	slices.SortFunc(out, func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Pulse is a heartbeat without a liveness check.
type Pulse struct{}

// Begin does nothing.
func (Pulse) Begin() {}

// Beat does nothing.
func (Pulse) Beat() {}

// Done does nothing.
func (Pulse) Done() {}
