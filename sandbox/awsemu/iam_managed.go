package awsemu

import (
	"encoding/json"
	"strings"
)

// awsPolicies is where the policies of AWS are.
const awsPolicies = "arn:aws:iam::aws:policy/"

// managedPolicy is the document of a policy of AWS, as far as it is about services that are emulated. One that is not
// known here can be attached, and allows nothing.
func managedPolicy(arn string) (document string, known bool) {
	name, managed := strings.CutPrefix(arn, awsPolicies)
	actions := map[string][]string{
		"AdministratorAccess": {"*"},
		"AmazonEKSWorkerNodePolicy": {
			"ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets",
			"ec2:DescribeVolumes", "ec2:DescribeVolumesModifications", "ec2:DescribeVpcs", "eks:DescribeCluster", "eks-auth:AssumeRoleForPodIdentity",
		},
		"AmazonEKS_CNI_Policy": {
			"ec2:AssignPrivateIpAddresses", "ec2:AttachNetworkInterface", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeInstances",
			"ec2:DescribeInstanceTypes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DescribeTags", "ec2:DetachNetworkInterface",
			"ec2:ModifyNetworkInterfaceAttribute", "ec2:UnassignPrivateIpAddresses",
		},
		"AmazonSSMManagedInstanceCore": {"ssm:GetParameter", "ssm:GetParameters"},
	}[name]
	if !managed || actions == nil {
		return "", false
	}
	text, err := json.Marshal(map[string]any{
		"Version": "2012-10-17", "Statement": []map[string]any{{"Sid": name, "Effect": "Allow", "Action": actions, "Resource": "*"}},
	})
	return string(text), err == nil
}
