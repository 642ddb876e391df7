package awsemu

import (
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

const nodeRoleARN = "arn:aws:iam::111122223333:role/KarpenterNodeRole-sandbox"

func TestAccessEntryLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := eks.NewFromConfig(c.cfg), t.Context()
	cluster := aws.String("sandbox")
	list := func() []string {
		t.Helper()
		var all []string
		pages := eks.NewListAccessEntriesPaginator(client, &eks.ListAccessEntriesInput{ClusterName: cluster, MaxResults: aws.Int32(2)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			check(t, err)
			all = append(all, page.AccessEntries...)
		}
		return all
	}
	if got := list(); len(got) != 3 || !slices.Contains(got, nodeRoleARN) {
		t.Errorf("of the fixture: %v", got)
	}
	one, err := client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: aws.String(nodeRoleARN)})
	check(t, err)
	if e := one.AccessEntry; *e.Type != "EC2_LINUX" || *e.Username != "system:node:{{EC2PrivateDNSName}}" || !slices.Equal(e.KubernetesGroups, []string{"system:nodes"}) || *e.ClusterName != "sandbox" || e.CreatedAt.IsZero() {
		t.Errorf("entry %+v", *e)
	}

	seedARN := "arn:aws:iam::111122223333:role/KarpenterNodeInstanceRole"
	_, err = client.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: cluster, PrincipalArn: &seedARN})
	check(t, err)
	if c.MayJoin(seedProfileName) {
		t.Error("a role without an access entry may join")
	}
	made, err := client.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: cluster, PrincipalArn: &seedARN, Tags: map[string]string{"team": "a"}})
	check(t, err)
	if e := made.AccessEntry; *e.Type != "STANDARD" || *e.Username != seedARN || e.Tags["team"] != "a" {
		t.Errorf("made %+v", *e)
	}
	if c.MayJoin(seedProfileName) {
		t.Error("a role whose entry is for people may join")
	}
	changed, err := client.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: cluster, PrincipalArn: &seedARN, KubernetesGroups: []string{"viewers"}})
	check(t, err)
	if !slices.Equal(changed.AccessEntry.KubernetesGroups, []string{"viewers"}) {
		t.Errorf("changed %+v", *changed.AccessEntry)
	}
	_, err = client.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: cluster, PrincipalArn: &seedARN})
	check(t, err)
	_, err = client.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: cluster, PrincipalArn: &seedARN, Type: aws.String("EC2_LINUX")})
	check(t, err)
	if !c.MayJoin(seedProfileName) || len(list()) != 3 {
		t.Errorf("a role with an entry for nodes may not join; entries %v", list())
	}
}

func TestAccessEntryErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := eks.NewFromConfig(c.cfg), t.Context()
	create := func(cluster, principal, kind string, groups ...string) error {
		in := &eks.CreateAccessEntryInput{ClusterName: &cluster, PrincipalArn: &principal, KubernetesGroups: groups}
		if kind != "" {
			in.Type = &kind
		}
		return errorOf(client.CreateAccessEntry(ctx, in))
	}
	spot := "arn:aws:iam::111122223333:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
	for name, tc := range map[string]struct {
		err    error
		code   string
		status int
	}{
		"twice":             {create("sandbox", nodeRoleARN, "EC2_LINUX"), "ResourceInUseException", 409},
		"another cluster":   {create("other", nodeRoleARN, ""), "ResourceNotFoundException", 404},
		"no such role":      {create("sandbox", "arn:aws:iam::111122223333:role/none", ""), "InvalidParameterException", 400},
		"no ARN":            {create("sandbox", "none", ""), "InvalidParameterException", 400},
		"unknown type":      {create("sandbox", spot, "EC2_MAC"), "InvalidParameterException", 400},
		"groups for nodes":  {create("sandbox", spot, "EC2_LINUX", "a"), "InvalidParameterException", 400},
		"groups of the API": {create("sandbox", spot, "", "system:masters"), "InvalidParameterException", 400},
		"describe":          {errorOf(client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("sandbox"), PrincipalArn: aws.String("none")})), "ResourceNotFoundException", 404},
		"delete":            {errorOf(client.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("sandbox"), PrincipalArn: aws.String("none")})), "ResourceNotFoundException", 404},
		"list":              {errorOf(client.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("other")})), "ResourceNotFoundException", 404},
		"page of 101":       {errorOf(client.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("sandbox"), MaxResults: aws.Int32(101)})), "InvalidParameterException", 400},
		"not emulated":      {errorOf(client.ListAssociatedAccessPolicies(ctx, &eks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("sandbox"), PrincipalArn: aws.String(nodeRoleARN)})), "InvalidAction", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, tc.err, tc.code, tc.status)
		})
	}
}

func TestClusterWithIPv6(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.set(t, http.MethodPut, "cluster", `{"serviceCIDR6":"fd00:10:96::/108"}`)
	out, err := eks.NewFromConfig(c.cfg).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("sandbox")})
	check(t, err)
	if network := out.Cluster.KubernetesNetworkConfig; *network.ServiceIpv6Cidr != "fd00:10:96::/108" || network.IpFamily != "ipv6" || network.ServiceIpv4Cidr != nil {
		t.Errorf("network %+v", *network)
	}
}
