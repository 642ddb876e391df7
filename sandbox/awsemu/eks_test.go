package awsemu

import (
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

func TestDescribeCluster(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := eks.NewFromConfig(c.cfg), t.Context()
	out, err := client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
	check(t, err)
	got := out.Cluster
	if *got.Name != "sandbox" || *got.Arn != "arn:aws:eks:eu-west-1:111122223333:cluster/sandbox" || *got.Version != "1.34" || got.Status != "ACTIVE" || *got.Endpoint != "https://127.0.0.1:6443" || *got.CertificateAuthority.Data != "Y2E=" {
		t.Errorf("cluster %+v", *got)
	}
	if *got.KubernetesNetworkConfig.ServiceIpv4Cidr != "10.100.0.0/16" || got.KubernetesNetworkConfig.IpFamily != "ipv4" || got.Identity.Oidc.Issuer == nil || got.CreatedAt.IsZero() {
		t.Errorf("cluster %+v", *got)
	}
	_, err = client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("other")})
	wantCode(t, err, "ResourceNotFoundException", 404)
	list, err := client.ListClusters(ctx, &eks.ListClustersInput{})
	check(t, err)
	if !slices.Equal(list.Clusters, []string{"sandbox"}) {
		t.Errorf("clusters %v", list.Clusters)
	}
	c.set(t, http.MethodPut, "cluster", `{"version":"1.35","vpc":"vpc-1","subnets":["subnet-1"]}`)
	out, err = client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
	check(t, err)
	if *out.Cluster.Version != "1.35" || *out.Cluster.Endpoint != "https://127.0.0.1:6443" || *out.Cluster.ResourcesVpcConfig.VpcId != "vpc-1" || len(out.Cluster.ResourcesVpcConfig.SubnetIds) != 1 {
		t.Errorf("after the change %+v", *out.Cluster)
	}
	var cluster Cluster
	c.callControlAPI(t, http.MethodGet, "cluster", "", &cluster)
	if cluster.Version != "1.35" || cluster.Name != "sandbox" {
		t.Errorf("control %+v", cluster)
	}
	if status := c.callControlAPI(t, http.MethodPut, "cluster", `{"varsion":"1.35"}`, nil); status != http.StatusBadRequest {
		t.Errorf("a typo gives %d", status)
	}
}

func TestMayJoin(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	if !c.MayJoin(seedProfileName) || c.MayJoin("none") {
		t.Error("the profile of the fixture may join, one that does not exist may not")
	}
	c.set(t, http.MethodPut, "cluster", `{"accessEntries":["KarpenterNodeRole-sandbox"]}`)
	if c.MayJoin(seedProfileName) {
		t.Error("a role without an access entry may join")
	}
	c.set(t, http.MethodPut, "cluster", `{"accessEntries":["KarpenterNodeInstanceRole"]}`)
	if !c.MayJoin(seedProfileName) {
		t.Error("a role with an access entry may not join")
	}
	c.set(t, http.MethodPut, "roles", `[]`)
	if c.MayJoin(seedProfileName) {
		t.Error("a profile without a role may join")
	}
}
