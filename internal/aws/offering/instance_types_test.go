package offering

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// E10: a listing that fails leaves the last one.
func TestFM_E10_RefreshFails(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	before := l.types(t, class(awsv1.FamilyAL2023))
	l.ec2.err = errors.New("throttled")
	if err := l.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "instance type") {
		t.Errorf("Refresh() = %v, want an error that names instance types (S-101)", err)
	}
	if after := l.types(t, class(awsv1.FamilyAL2023)); &after[0] != &before[0] {
		t.Error("the list changed")
	}
}

// E11: an empty listing is a failure, not "all types are gone".
func TestFM_E11_EmptyListing(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*fakeEC2){
		"no types":     func(f *fakeEC2) { f.infos = nil },
		"no offerings": func(f *fakeEC2) { f.offered = map[string][]string{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, nil, allTypes(t)...)
			empty(l.ec2)
			if err := l.Refresh(t.Context()); err == nil {
				t.Error("Refresh() succeeded")
			}
			if n := len(l.types(t, class(awsv1.FamilyAL2023))); n != 897 {
				t.Errorf("%d types listed, want those from before", n)
			}
		})
	}
}

func TestListingErrors(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	empty := New(l.options)
	for name, list := range map[string]func() error{
		"before the first refresh": func() error { _, err := empty.Types(class(awsv1.FamilyAL2023), nil); return err },
		"a class without subnets": func() error {
			_, err := l.Types(class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) { c.Status.Subnets = nil }), nil)
			return err
		},
	} {
		if err := list(); cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), "instance types") {
			t.Errorf("%s: %v, want an error of kind NotReady", name, err)
		}
	}
}

// The same response of EC2 keeps lists; another one replaces them.
func TestRefreshKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023)
	before := l.types(t, c)
	l.ec2.infos = allTypes(t)
	if err := l.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := l.types(t, c); &after[0] != &before[0] {
		t.Error("the list changed although EC2 said the same")
	}
	l.ec2.infos = l.ec2.infos[1:]
	if err := l.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.types(t, c)); n != 896 {
		t.Errorf("%d types after one was withdrawn (E12), want 896", n)
	}
	if _, known := l.Raw("a1.2xlarge"); known {
		t.Error("Raw knows the type that was withdrawn")
	}
	if info, known := l.Raw("m5.large"); !known || info.InstanceType != "m5.large" {
		t.Errorf("Raw(m5.large) = %v, %v", info.InstanceType, known)
	}
}

// recordingEC2 records the questions.
type recordingEC2 struct {
	fakeEC2
	types     *ec2.DescribeInstanceTypesInput
	offerings *ec2.DescribeInstanceTypeOfferingsInput
}

func (a *recordingEC2) DescribeInstanceTypes(ctx context.Context, in *ec2.DescribeInstanceTypesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	a.types = in
	return a.fakeEC2.DescribeInstanceTypes(ctx, in, o...)
}

func (a *recordingEC2) DescribeInstanceTypeOfferings(ctx context.Context, in *ec2.DescribeInstanceTypeOfferingsInput, o ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	a.offerings = in
	return a.fakeEC2.DescribeInstanceTypeOfferings(ctx, in, o...)
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	requested := &recordingEC2{fakeEC2: fakeEC2{infos: allTypes(t)}}
	newFixture(t, func(o *Options) { o.EC2 = requested })
	filters := map[string]string{}
	for _, f := range requested.types.Filters {
		filters[*f.Name] = strings.Join(f.Values, ",")
	}
	want := map[string]string{"supported-virtualization-type": "hvm", "processor-info.supported-architecture": "x86_64,arm64"}
	if diff := cmp.Diff(want, filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	if *requested.types.MaxResults != 100 || *requested.offerings.MaxResults != 1000 || requested.offerings.LocationType != "availability-zone" {
		t.Errorf("pages of %d and %d, by %s", *requested.types.MaxResults, *requested.offerings.MaxResults, requested.offerings.LocationType)
	}
}

func TestUnavailableVersion(t *testing.T) {
	t.Parallel()
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	u := NewUnavailable(func() time.Time { return clock })
	version := u.Version()
	rises := func(when string, want bool) {
		t.Helper()
		now := u.Version()
		if rose := now > version; rose != want || now < version {
			t.Errorf("%s: version %d after %d", when, now, version)
		}
		version = now
	}
	rises("nothing happened", false)
	u.MarkSubnet("subnet-a", "full")
	rises("a subnet is full", true)
	clock = clock.Add(time.Minute)
	u.Mark("spot", "m5.large", "us-east-1a", Group{}, "ICE")
	rises("an offering is out", true)
	clock = clock.Add(2 * time.Minute)
	rises("the subnet is tried again", true)
	if u.SubnetFull("subnet-a") || !u.Has("spot", "m5.large", "us-east-1a", Group{}) {
		t.Error("the wrong entry expired")
	}
	u.Mark("spot", "m5.large", "us-east-1a", Group{}, "ICE again")
	rises("refreshed before it expired", true)
	clock = clock.Add(time.Minute)
	rises("it would have expired by now", false)
	clock = clock.Add(2 * time.Minute)
	rises("it expired", true)
	if u.Has("spot", "m5.large", "us-east-1a", Group{}) || len(u.until) != 0 {
		t.Error("an entry is left")
	}
}

// Reservations: 24 hours, never below zero (F08).
func TestFM_F08_ReservationCounts(t *testing.T) {
	t.Parallel()
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := NewReservations(func() time.Time { return clock })
	for _, step := range []struct {
		do       func(id string)
		name     string
		want     int
		takers   []string
		unchange bool
	}{
		{do: func(string) {}, name: "not known", unchange: true},
		{do: func(id string) { r.Set(id, 2, clock) }, name: "set", want: 2},
		{do: func(id string) { r.Set(id, 2, clock) }, name: "set again", want: 2, unchange: true},
		{do: func(id string) { r.Took(id, "a") }, name: "took", want: 1, takers: []string{"a"}},
		{do: func(id string) { r.Took(id, "a") }, name: "told twice", want: 1, takers: []string{"a"}, unchange: true},
		{do: func(id string) { r.Returned(id, clock) }, name: "returned, as EC2 may have said", want: 1, takers: []string{"a"}, unchange: true},
		{do: func(id string) { r.Returned(id, clock.Add(1)) }, name: "returned", want: 2, takers: []string{"a"}},
		{do: r.Exhausted, name: "exhausted", takers: []string{"a"}},
		{do: func(id string) { r.Took(id, "b") }, name: "took from nothing", takers: []string{"a", "b"}},
		{do: func(id string) { r.Returned(id, clock.Add(1)) }, name: "returned to nothing", want: 1, takers: []string{"a", "b"}},
		{do: func(id string) { r.Found(id, "c") }, name: "found, as EC2 knows", want: 1, takers: []string{"a", "b", "c"}},
		{do: func(id string) { r.Set(id, 3, clock.Add(-1)) }, name: "an answer of before two launches", want: 1, takers: []string{"a", "b", "c"}, unchange: true},
		{do: func(id string) { r.Set(id, 3, clock.Add(1)) }, name: "an answer of after them", want: 3, takers: []string{"a", "b", "c"}},
		{do: func(id string) { clock = clock.Add(takersFor + 1); r.Took(id, "d") }, name: "the others are old", want: 2, takers: []string{"d"}},
	} {
		before := r.Version()
		step.do("cr-1")
		free, takers := r.Count("cr-1")
		if free != step.want || free != r.Free("cr-1") || !slices.Equal(takers, step.takers) {
			t.Errorf("%s: %d free without %v, want %d without %v", step.name, free, takers, step.want, step.takers)
		}
		if rose := r.Version() > before; rose == step.unchange {
			t.Errorf("%s: version rose: %v", step.name, rose)
		}
	}
	version := r.Version()
	clock = clock.Add(reservationFor)
	if got := r.Free("cr-1"); got != 0 || r.Version() == version {
		t.Errorf("a day later: %d free, version %d after %d", got, r.Version(), version)
	}
}
