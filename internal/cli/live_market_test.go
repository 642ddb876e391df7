package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// fixedMarket has a list of instance types for each class, made anew for each call.
type fixedMarket struct {
	driver.Market

	refused error
	counted []string // classes whose reservations were counted
}

func (m *fixedMarket) Lanes() resources.Table { return resources.NewTable() }

func (m *fixedMarket) Types(class client.Object, _ *karpv1.NodePool) ([]catalog.InstanceType, error) {
	if class.GetName() == "broken" {
		return nil, errors.New("no subnets")
	}
	price := 1.0
	if class.GetName() == "far" {
		price = 2
	}
	return []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{{Zone: "us-east-1a", Price: price}}}}, nil
}

func (m *fixedMarket) CountReserved(_ context.Context, class client.Object) error {
	m.counted = append(m.counted, class.GetName())
	if class.GetName() == "far" {
		return m.refused
	}
	return nil
}

func TestLiveMarket(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := awsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, name := range []string{"near", "same", "far", "broken"} {
		builder.WithObjects(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var pools []karpv1.NodePool
	for _, class := range []string{"near", "near", "same", "far", "broken", "absent", "broken", "near"} {
		pool := snapshottest.Pool(class + string(rune('a'+len(pools))))
		pool.Spec.Template.Spec.NodeClassRef.Name = class
		pools = append(pools, *pool)
	}
	source := &fixedMarket{refused: errors.New("not allowed\nat all")}
	class := driver.Class{
		GroupVersionKind: awsv1.GroupVersion().WithKind(awsv1.Kind), NewList: func() client.ObjectList { return &awsv1.EC2NodeClassList{} },
	}
	m := &catalogues{cloud: "AWS", kinds: []driver.Class{class}, classes: map[string]client.Object{}, market: source, counted: map[string]bool{}}
	all, missing := m.of(t.Context(), builder.Build(), pools)
	var got []string
	for _, c := range all {
		got = append(got, strings.Join(c.NodePools, ",")+": "+c.Problem)
	}
	want := []string{"neara,nearb,samec,nearh: ", "fard: ", "brokene,brokeng: no subnets", "absentf: EC2NodeClass absent does not exist"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("WI-25: catalogues (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"near", "same", "far", "broken"}, source.counted); diff != "" {
		t.Errorf("WI-26: reservations were counted of (-want +got):\n%s", diff)
	}
	wantMissing := []snapshot.Missing{{
		What: "free capacity of the reservations of EC2NodeClass far", Why: "not allowed",
		Then: "reservations count as full, so that a plan launches nothing in them; request the right to read them",
	}}
	if diff := cmp.Diff(wantMissing, missing); diff != "" {
		t.Errorf("WI-26: what is missing (-want +got):\n%s", diff)
	}
}
