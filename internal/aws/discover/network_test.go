package discover_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
)

func subnet(id string, free int32) ec2types.Subnet {
	return ec2types.Subnet{SubnetId: &id, AvailabilityZone: new("eu-west-1" + id[len(id)-1:]), AvailabilityZoneId: new("euw1-az1"), AvailableIpAddressCount: &free}
}

// EC2NodeClass 7: ids are merged into one filter, each set of tags is its own call, values may be
// wildcards, and an id wins over tags. S-068..S-070: all that match are selected, by any tag.
func TestSubnetQueries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		terms []awsv1.SubnetSelectorTerm
		want  []string
	}{
		"S-069 by the discovery tag": {terms: []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}}, want: []string{"tag:karpenter.sh/discovery=demo"}},
		"tags of a term are all needed": {
			terms: []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"kubernetes.io/role/internal-elb": "1", "a": "b*"}}},
			want:  []string{"tag:a=b* tag:kubernetes.io/role/internal-elb=1"},
		},
		"S-142 private subnets of a cluster": {
			terms: []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo", "kubernetes.io/role/internal-elb": "1"}}},
			want:  []string{"tag:karpenter.sh/discovery=demo tag:kubernetes.io/role/internal-elb=1"},
		},
		"any value of a tag":                {terms: []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"a": "*"}}}, want: []string{"tag-key=a"}},
		"ids are one call, tags one each":   {terms: []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}, {Tags: awsv1.Tags{"a": "1"}}, {ID: "subnet-2"}, {Tags: awsv1.Tags{"b": "2"}}}, want: []string{"tag:a=1", "tag:b=2", "subnet-id=subnet-1,subnet-2"}},
		"an id wins over tags":              {terms: []awsv1.SubnetSelectorTerm{{ID: "subnet-1", Tags: awsv1.Tags{"a": "1"}}}, want: []string{"subnet-id=subnet-1"}},
		"an empty term selects nothing":     {terms: []awsv1.SubnetSelectorTerm{{}}},
		"no terms select nothing, silently": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{subnets: func(*ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput { return &ec2.DescribeSubnetsOutput{} }}
			got, err := discoverer(f, newClock()).Subnets(quiet(t), class(awsv1.EC2NodeClassSpec{SubnetSelectorTerms: tc.terms}))
			if err != nil || len(got) > 0 {
				t.Fatalf("got %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, f.requests); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// EC2NodeClass 3: most free addresses first, then by id; twice found is once listed; all pages count.
func TestSubnetsAreOrderedAndDistinct(t *testing.T) {
	t.Parallel()
	f := &fake{subnets: func(in *ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput {
		if in.NextToken == nil {
			return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet("subnet-b", 10), subnet("subnet-a", 10)}, NextToken: new("2")}
		}
		return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet("subnet-c", 20), subnet("subnet-b", 10)}}
	}}
	d := discoverer(f, newClock())
	got, err := d.Subnets(quiet(t), class(awsv1.EC2NodeClassSpec{SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"a": "1"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	want := []discover.Subnet{
		{ID: "subnet-c", Zone: "eu-west-1c", ZoneID: "euw1-az1", Free: 20},
		{ID: "subnet-a", Zone: "eu-west-1a", ZoneID: "euw1-az1", Free: 10},
		{ID: "subnet-b", Zone: "eu-west-1b", ZoneID: "euw1-az1", Free: 10},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
}

// AWS provider 10: responses are kept for a while and until the class is edited; errors are not kept and are no response.
func TestSubnetsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	f := &fake{subnets: func(*ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput {
		return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet("subnet-a", 1)}}
	}}
	c := newClock()
	d := discoverer(f, c, func(o *discover.Options) { o.SubnetsEvery = 10 * time.Minute })
	nodes := class(awsv1.EC2NodeClassSpec{SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-a"}}})
	query := func(want int) {
		t.Helper()
		if got, err := d.Subnets(quiet(t), nodes); err != nil || len(got) != 1 || len(f.requests) != want {
			t.Fatalf("got %v, %v after %d calls, want %d", got, err, len(f.requests), want)
		}
	}
	query(1)
	c.pass(10*time.Minute - time.Second)
	query(1)
	nodes.Generation++
	query(2)
	c.pass(10 * time.Minute)
	f.err = errThrottled
	if got, err := d.Subnets(quiet(t), nodes); !errors.Is(err, errThrottled) || got != nil {
		t.Fatalf("got %v, %v, want the error", got, err)
	}
	f.err = nil
	query(4)
	d.DropClass(nodes.UID)
	query(5)
}

func TestDiscoveriesAreLoggedWhenTheyChange(t *testing.T) {
	t.Parallel()
	found := "subnet-a"
	f := &fake{subnets: func(*ec2.DescribeSubnetsInput) *ec2.DescribeSubnetsOutput {
		return &ec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{subnet(found, 1)}}
	}}
	c := newClock()
	d := discoverer(f, c)
	ctx, got := lines(t)
	for _, next := range []string{"subnet-a", "subnet-a", "subnet-b"} {
		found = next
		if _, err := d.Subnets(ctx, class(awsv1.EC2NodeClassSpec{SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "x"}}})); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Minute)
	}
	if len(*got) != 2 || !strings.Contains((*got)[0], `"discovered subnets"`) || !strings.Contains((*got)[1], "subnet-b") {
		t.Errorf("logged %q", *got)
	}
}

func TestSecurityGroupQueries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		terms []awsv1.SecurityGroupSelectorTerm
		want  []string
	}{
		"ids and names are one call each": {
			terms: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1"}, {Name: "n1"}, {Tags: awsv1.Tags{"a": "1"}}, {ID: "sg-2"}, {Name: "n*"}},
			want:  []string{"tag:a=1", "group-name=n1,n*", "group-id=sg-1,sg-2"},
		},
		"an id wins over a name, a name over tags": {
			terms: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1", Name: "n", Tags: awsv1.Tags{"a": "1"}}, {Name: "n", Tags: awsv1.Tags{"a": "1"}}},
			want:  []string{"group-name=n", "group-id=sg-1"},
		},
		"S-143 by the discovery tag": {terms: []awsv1.SecurityGroupSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}}, want: []string{"tag:karpenter.sh/discovery=demo"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{groups: func(*ec2.DescribeSecurityGroupsInput) *ec2.DescribeSecurityGroupsOutput {
				return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: []ec2types.SecurityGroup{{GroupId: new("sg-b"), GroupName: new("b")}, {GroupId: new("sg-a"), GroupName: new("a")}}}
			}}
			got, err := discoverer(f, newClock()).SecurityGroups(quiet(t), class(awsv1.EC2NodeClassSpec{SecurityGroupSelectorTerms: tc.terms}), false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, f.requests); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]awsv1.SecurityGroup{{ID: "sg-a", Name: "a"}, {ID: "sg-b", Name: "b"}}, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

// L-08: the group of the cluster stands in only for terms that the user did not write.
func TestL_08_ClusterSecurityGroup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fallback bool
		tagged   bool
		err      error
		want     string
	}{
		"derived terms that match":     {fallback: true, tagged: true, want: "sg-tagged"},
		"derived terms without match":  {fallback: true, want: "sg-cluster"},
		"written terms without match":  {},
		"the cluster cannot be looked": {fallback: true, err: errThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{groups: func(in *ec2.DescribeSecurityGroupsInput) *ec2.DescribeSecurityGroupsOutput {
				out := &ec2.DescribeSecurityGroupsOutput{}
				if *in.Filters[0].Name == "group-id" {
					out.SecurityGroups = []ec2types.SecurityGroup{{GroupId: new("sg-cluster")}}
				} else if tc.tagged {
					out.SecurityGroups = []ec2types.SecurityGroup{{GroupId: new("sg-tagged")}}
				}
				return out
			}}
			d := discoverer(f, newClock(), func(o *discover.Options) {
				o.ClusterGroup = func(context.Context) (string, error) { return "sg-cluster", tc.err }
			})
			got, err := d.SecurityGroups(quiet(t), class(awsv1.EC2NodeClassSpec{SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: awsv1.Tags{"a": "1"}}}}), tc.fallback)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if (tc.want == "") != (len(got) == 0) || tc.want != "" && got[0].ID != tc.want {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}
