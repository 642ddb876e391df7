package zonalshift_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	arctypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/zonalshift"
	"github.com/dovetail-sh/dovetail/internal/event"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service responds with what it holds and counts.
type service struct {
	response  *arczonalshift.GetManagedResourceOutput
	err       error
	requested []string
}

func (s *service) GetManagedResource(_ context.Context, in *arczonalshift.GetManagedResourceInput, _ ...func(*arczonalshift.Options)) (*arczonalshift.GetManagedResourceOutput, error) {
	s.requested = append(s.requested, *in.ResourceIdentifier)
	return s.response, s.err
}

type events []string

func (e *events) Emit(obj client.Object, list ...event.Event) {
	for _, one := range list {
		*e = append(*e, obj.GetName()+" "+string(one.Reason)+" "+one.Key)
	}
}

func shift(zone string, end time.Time, status arctypes.AppliedStatus) arctypes.ZonalShiftInResource {
	return arctypes.ZonalShiftInResource{AwayFrom: &zone, ExpiryTime: &end, AppliedStatus: status}
}

func response(shifts ...arctypes.ZonalShiftInResource) *arczonalshift.GetManagedResourceOutput {
	return &arczonalshift.GetManagedResourceOutput{ZonalShifts: shifts}
}

func pool(name, class string, requirements ...karpv1.Requirement) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: class}
	p.Spec.Template.Spec.Requirements = requirements
	return p
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// subject is what is tested, with everything around it.
type subject struct {
	*zonalshift.Shifts

	api    *service
	events events
	now    time.Time
}

func newSubject(t *testing.T, enabled bool) *subject {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: awsv1.EC2NodeClassStatus{Subnets: []awsv1.Subnet{
		{ID: "subnet-1", Zone: "eu-west-1a", ZoneID: "euw1-az1"}, {ID: "subnet-2", Zone: "eu-west-1b", ZoneID: "euw1-az2"},
	}}}
	s := &subject{api: &service{response: response()}, now: start}
	s.Shifts = zonalshift.New(zonalshift.Options{
		Enabled: enabled, API: s.api, ARN: func(context.Context) (string, error) { return "arn:cluster", nil }, Events: &s.events, Now: func() time.Time { return s.now },
		Objects: fake.NewClientBuilder().WithScheme(scheme).WithObjects(class,
			pool("anywhere", "c"), pool("named", "c", in(corev1.LabelTopologyZone, "eu-west-1a")), pool("elsewhere", "c", in(awsv1.LabelZoneID, "euw1-az2")), pool("other-class", "d"),
		).Build(),
	})
	return s
}

func (s *subject) poll(t *testing.T) []string {
	t.Helper()
	s.events = nil
	if err := s.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.events
}

// E19, AWS provider 8: a shift that is applied and has not expired; pools that can use the zone hear
// of its beginning and its end.
func TestFM_E19_Shift(t *testing.T) {
	t.Parallel()
	s := newSubject(t, true)
	if got := s.poll(t); len(got) > 0 || s.Shifted("euw1-az1") {
		t.Errorf("shifted without a shift; events %v", got)
	}
	s.api.response = response(shift("euw1-az1", start.Add(time.Hour), "APPLIED"), shift("euw1-az2", start.Add(time.Hour), "NOT_APPLIED"), shift("euw1-az3", start, "APPLIED"))
	if diff := cmp.Diff([]string{"anywhere ZonalShiftActive euw1-az1", "named ZonalShiftActive euw1-az1"}, s.poll(t)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !s.Shifted("euw1-az1") || s.Shifted("euw1-az2") || s.Shifted("euw1-az3") {
		t.Error("only the shift that is applied and lasts counts")
	}
	if got := s.poll(t); len(got) > 0 {
		t.Errorf("reported twice: %v", got)
	}

	// While the API cannot be reached, the shift stays in force, but not past its end.
	s.api.response, s.api.err = nil, errors.New("outage")
	if err := s.Poll(t.Context()); err == nil || !s.Shifted("euw1-az1") {
		t.Error("an error ended the shift")
	}
	s.now = start.Add(time.Hour)
	s.events = nil
	if err := s.Poll(t.Context()); err == nil || s.Shifted("euw1-az1") {
		t.Error("the shift outlives its end")
	}
	if diff := cmp.Diff(events{"anywhere ZonalShiftCleared euw1-az1", "named ZonalShiftCleared euw1-az1"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAutoshiftHasNoEnd(t *testing.T) {
	t.Parallel()
	s := newSubject(t, true)
	s.api.response = &arczonalshift.GetManagedResourceOutput{Autoshifts: []arctypes.AutoshiftInResource{{AwayFrom: new("euw1-az2"), AppliedStatus: "APPLIED"}}}
	s.poll(t)
	s.now = start.Add(100 * time.Hour)
	if !s.Shifted("euw1-az2") {
		t.Error("not shifted")
	}
	s.api.response, s.api.err = nil, &arctypes.ResourceNotFoundException{}
	if s.poll(t); s.Shifted("euw1-az2") {
		t.Error("a cluster that is not enrolled has shifts")
	}
}

func TestDisabledMakesNoRequests(t *testing.T) {
	t.Parallel()
	s := newSubject(t, false)
	s.api.response = response(shift("euw1-az1", start.Add(time.Hour), "APPLIED"))
	if got := s.poll(t); len(got) > 0 || len(s.api.requested) > 0 || s.Shifted("euw1-az1") {
		t.Errorf("called %v, events %v", s.api.requested, got)
	}
}
