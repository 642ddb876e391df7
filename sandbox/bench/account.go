package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

const (
	instanceType    = "m5.xlarge" // 58 pods by its network interfaces
	instanceProfile = "KarpenterNodeInstanceProfile"
	imageName       = "amazon-eks-node-al2023-x86_64-standard-*"
	templateName    = "dovetail-bench"
	fleetSize       = 100
	terminateSize   = 500
	extraAddresses  = 100

	benchLabel = "sandbox.dovetail.sh/bench"
)

// userData joins a node with the label that everything here selects by.
const userData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: ` + world.Cluster + `
    apiServerEndpoint: https://x
    certificateAuthority: eA==
    cidr: 10.100.0.0/16
  kubelet:
    flags: ['--node-labels="` + benchLabel + `=true"']
--//--
`

// account is the emulated AWS as a client sees it.
type account struct {
	endpoint  string
	ec2       *ec2.Client
	image     string
	subnets   []string
	instances []string
}

// newAccount finds what machines need.
func newAccount(ctx context.Context, endpoint string) (*account, error) {
	a := &account{endpoint: endpoint, ec2: ec2.NewFromConfig(aws.Config{
		Region: world.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("AKIASANDBOX", "sandbox", ""),
	})}
	images, err := a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []types.Filter{{Name: aws.String("name"), Values: []string{imageName}}}})
	if err != nil {
		return nil, err
	}
	if len(images.Images) == 0 {
		return nil, fmt.Errorf("there is no image %s", imageName)
	}
	newest := slices.MaxFunc(images.Images, func(a, b types.Image) int {
		return bytes.Compare([]byte(aws.ToString(a.CreationDate)), []byte(aws.ToString(b.CreationDate)))
	})
	a.image = aws.ToString(newest.ImageId)
	subnets, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		return nil, err
	}
	for _, s := range subnets.Subnets {
		a.subnets = append(a.subnets, aws.ToString(s.SubnetId))
	}
	if len(a.subnets) == 0 {
		return nil, errors.New("there is no subnet")
	}
	return a, nil
}

// launch starts machines, some in every subnet.
func (a *account) launch(ctx context.Context, n int) error {
	if err := a.makeRoom(ctx, n); err != nil {
		return err
	}
	_, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(templateName),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:            &a.image,
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(instanceProfile)},
			UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		},
	})
	if err != nil {
		return err
	}
	for fleet := 0; n > 0; fleet++ {
		size := min(n, fleetSize)
		if err := a.launchFleet(ctx, size, a.subnets[fleet%len(a.subnets)]); err != nil {
			return err
		}
		n -= size
	}
	return nil
}

func (a *account) launchFleet(ctx context.Context, size int, subnet string) error {
	out, err := a.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(templateName), Version: aws.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: instanceType, SubnetId: &subnet}},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(int32(size)), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
	})
	if err != nil {
		return err
	}
	for _, e := range out.Errors {
		return fmt.Errorf("CreateFleet: %s: %s", aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage))
	}
	for _, i := range out.Instances {
		a.instances = append(a.instances, i.InstanceIds...)
	}
	return nil
}

// terminate ends all machines that were launched here.
func (a *account) terminate(ctx context.Context) error {
	for ids := range slices.Chunk(a.instances, terminateSize) {
		if _, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
			return err
		}
	}
	a.instances = nil
	_, err := a.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(templateName)})
	return err
}

// makeRoom gives every subnet enough addresses, through the control API: EC2 has no call for that.
func (a *account) makeRoom(ctx context.Context, n int) error {
	type subnet struct {
		ID   string `json:"id"`
		Free int    `json:"free"`
	}
	var list []subnet
	for _, id := range a.subnets {
		list = append(list, subnet{ID: id, Free: n + extraAddresses})
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, a.endpoint+"/_dovetail/subnets", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New("subnets: "+strconv.Itoa(response.StatusCode)+" "+string(body)))
	}
	return nil
}
