package discover_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
)

func classNamed(name string, spec awsv1.EC2NodeClassSpec) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}, Spec: spec}
}

func responding() *fake {
	return &fake{
		subnets: func(*ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput {
			return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet("subnet-a", 1)}}
		},
		groups: func(*ec2.DescribeSecurityGroupsInput) *ec2.DescribeSecurityGroupsOutput {
			return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: []ec2types.SecurityGroup{{GroupId: new("sg-a")}}}
		},
		images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
			return &ec2.DescribeImagesOutput{Images: []ec2types.Image{{ImageId: new("ami-a"), Architecture: ec2types.ArchitectureValuesX8664}}}
		},
		reservations: func(*ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
			return &ec2.DescribeCapacityReservationsOutput{}, nil
		},
	}
}

// Classes with equal terms share one question, in whatever order the terms are written, and after its time
// one again. Requests with other parameters are separate.
func TestEqualTermsAreRequestedOnce(t *testing.T) {
	t.Parallel()
	a, b := awsv1.Tags{"team": "a", "zone": "*"}, awsv1.Tags{"team": "b"}
	one := classNamed("one", awsv1.EC2NodeClassSpec{
		SubnetSelectorTerms:              []awsv1.SubnetSelectorTerm{{Tags: a}, {Tags: b}},
		SecurityGroupSelectorTerms:       []awsv1.SecurityGroupSelectorTerm{{Tags: a}, {Tags: b}},
		AMISelectorTerms:                 []awsv1.AMISelectorTerm{{Tags: a}, {Tags: b}},
		CapacityReservationSelectorTerms: []awsv1.CapacityReservationSelectorTerm{{Tags: a}, {Tags: b}},
	})
	two := classNamed("two", awsv1.EC2NodeClassSpec{
		SubnetSelectorTerms:              []awsv1.SubnetSelectorTerm{{Tags: b}, {Tags: a}},
		SecurityGroupSelectorTerms:       []awsv1.SecurityGroupSelectorTerm{{Tags: b}, {Tags: a}},
		AMISelectorTerms:                 []awsv1.AMISelectorTerm{{Tags: b}, {Tags: a}},
		CapacityReservationSelectorTerms: []awsv1.CapacityReservationSelectorTerm{{Tags: b}, {Tags: a}},
	})
	for name, tc := range map[string]struct {
		query func(context.Context, *discover.Discoverer, *awsv1.EC2NodeClass) error
		other func(context.Context, *discover.Discoverer, *awsv1.EC2NodeClass) error // that needs another response
	}{
		"subnets": {query: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
			return second(d.Subnets(ctx, c))
		}},
		"security groups": {
			query: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.SecurityGroups(ctx, c, false))
			},
			other: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.SecurityGroups(ctx, c, true))
			},
		},
		"images": {
			query: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.Images(ctx, c, "1.34"))
			},
			other: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.Images(ctx, c, "1.35"))
			},
		},
		"reservations": {
			query: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.Reservations(ctx, c))
			},
			other: func(ctx context.Context, d *discover.Discoverer, c *awsv1.EC2NodeClass) error {
				return second(d.FreshReservations(ctx, c))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, c := responding(), newClock()
			d := discoverer(f, c)
			query := func(class *awsv1.EC2NodeClass, how func(context.Context, *discover.Discoverer, *awsv1.EC2NodeClass) error, want int) {
				t.Helper()
				if err := how(quiet(t), d, class); err != nil || len(f.requests) != want {
					t.Fatalf("%d calls, want %d; %v", len(f.requests), want, err)
				}
			}
			query(one, tc.query, 2) // one for each term
			query(two, tc.query, 2)
			c.pass(time.Minute)
			query(two, tc.query, 4)
			query(one, tc.query, 4)
			d.DropClass(one.UID)
			query(two, tc.query, 4)
			d.DropClass(two.UID)
			query(two, tc.query, 6)
			edited := two.DeepCopy()
			edited.Generation++
			query(edited, tc.query, 8)
			query(one, tc.query, 8)
			if tc.other != nil {
				query(one, tc.other, 10)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Each class hears of what was discovered for it, also where another one made the call.
func TestSharedDiscoveriesAreLoggedForEachClass(t *testing.T) {
	t.Parallel()
	d := discoverer(responding(), newClock())
	ctx, got := lines(t)
	spec := awsv1.EC2NodeClassSpec{SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-a"}}}
	for _, name := range []string{"one", "two", "one"} {
		if _, err := d.Subnets(ctx, classNamed(name, spec)); err != nil {
			t.Fatal(err)
		}
	}
	if len(*got) != 2 || !strings.Contains((*got)[0], "one") || !strings.Contains((*got)[1], "two") {
		t.Errorf("logged %q, want a line for each class", *got)
	}
}

// slow responds after a second, and counts the calls.
type slow struct {
	fake
	mu    sync.Mutex
	calls int
	fails error
}

func (s *slow) DescribeSubnets(ctx context.Context, _ *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet("subnet-a", 1)}}, s.fails
}

// Callers at the same time wait for one response. All of them get an error, each about its own class;
// that one caller had to leave is not the response of the others.
func TestConcurrentQueriesShareOneCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fails  error
		leaves bool // the first one does
		calls  int
	}{
		"a response":            {calls: 1},
		"an error":              {fails: errThrottled, calls: 1},
		"the first one leaves":  {leaves: true, calls: 2},
		"it leaves, then error": {leaves: true, fails: errThrottled, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{fails: tc.fails}
				d := discover.New(discover.Options{EC2: s, Now: time.Now})
				spec := awsv1.EC2NodeClassSpec{SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-a"}}}
				var all sync.WaitGroup
				for _, class := range []string{"one", "two", "three"} {
					ctx, leave := context.WithCancel(quiet(t))
					defer leave()
					all.Go(func() {
						got, err := d.Subnets(ctx, classNamed(class, spec))
						want := tc.fails
						if tc.leaves && class == "one" {
							want = context.Canceled
						}
						if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), "EC2NodeClass "+class) || err == nil && len(got) != 1 {
							t.Errorf("%s: %v, %v", class, got, err)
						}
					})
					synctest.Wait()
					if tc.leaves && class == "one" {
						all.Go(func() { time.Sleep(time.Millisecond); leave() })
					}
				}
				all.Wait()
				if s.calls != tc.calls {
					t.Errorf("%d calls, want %d", s.calls, tc.calls)
				}
			})
		})
	}
}
