package discover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
)

// fake serves calls of EC2 and SSM with functions; the requests are kept.
type fake struct {
	discover.EC2

	err          error
	subnets      func(*ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput
	groups       func(*ec2.DescribeSecurityGroupsInput) *ec2.DescribeSecurityGroupsOutput
	images       func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput
	reservations func(*ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error)
	placement    func(*ec2.DescribePlacementGroupsInput) (*ec2.DescribePlacementGroupsOutput, error)
	parameters   map[string]string

	requests []string // one line per call: filters
	readSSM  []string
	ssmError error
}

func (f *fake) query(filters []ec2types.Filter) error {
	f.requests = append(f.requests, text(filters))
	return f.err
}

func (f *fake) DescribeSubnets(_ context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	if err := f.query(in.Filters); err != nil {
		return nil, err
	}
	return f.subnets(in), nil
}

func (f *fake) DescribeSecurityGroups(_ context.Context, in *ec2.DescribeSecurityGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	if err := f.query(in.Filters); err != nil {
		return nil, err
	}
	return f.groups(in), nil
}

func (f *fake) DescribeImages(_ context.Context, in *ec2.DescribeImagesInput, _ ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	if err := f.query(in.Filters); err != nil {
		return nil, err
	}
	return f.images(in), nil
}

func (f *fake) DescribeCapacityReservations(_ context.Context, in *ec2.DescribeCapacityReservationsInput, _ ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	if err := f.query(in.Filters); err != nil {
		return nil, err
	}
	return f.reservations(in)
}

func (f *fake) DescribePlacementGroups(_ context.Context, in *ec2.DescribePlacementGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error) {
	if err := f.query(in.Filters); err != nil {
		return nil, err
	}
	return f.placement(in)
}

func (f *fake) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	f.readSSM = append(f.readSSM, *in.Name)
	if f.ssmError != nil {
		return nil, f.ssmError
	}
	value, found := f.parameters[*in.Name]
	if !found {
		return nil, &ssmtypes.ParameterNotFound{}
	}
	return &ssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Value: &value}}, nil
}

func text(filters []ec2types.Filter) string {
	out := ""
	for i, f := range filters {
		if i > 0 {
			out += " "
		}
		out += *f.Name + "="
		for j, v := range f.Values {
			if j > 0 {
				out += ","
			}
			out += v
		}
	}
	return out
}

var errThrottled = errors.New("throttled")

// clock is a time that tests move.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time       { return c.now }
func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func discoverer(f *fake, c *clock, change ...func(*discover.Options)) *discover.Discoverer {
	o := discover.Options{EC2: f, SSM: f, Now: c.Now, SubnetsEvery: time.Minute, ImagesEvery: time.Minute}
	for _, apply := range change {
		apply(&o)
	}
	return discover.New(o)
}

func class(spec awsv1.EC2NodeClassSpec) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u1", Generation: 1}, Spec: spec}
}

// lines collects the messages that are logged.
func lines(t *testing.T) (context.Context, *[]string) {
	t.Helper()
	var got []string
	logger := funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{})
	return log.IntoContext(t.Context(), logger), &got
}

func quiet(t *testing.T) context.Context {
	t.Helper()
	return log.IntoContext(t.Context(), logr.Discard())
}
