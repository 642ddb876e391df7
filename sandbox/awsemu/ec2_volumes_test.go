package awsemu

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// describeVolumesOf describes the volumes of an instance, by device.
func (l *ec2Env) describeVolumesOf(instance string) map[string]types.Volume {
	l.Helper()
	out, err := l.ec2.DescribeVolumes(l.Context(), &ec2.DescribeVolumesInput{Filters: ec2FilterOf("attachment.instance-id", instance)})
	if err != nil {
		l.Fatal(err)
	}
	byDevice := map[string]types.Volume{}
	for _, v := range out.Volumes {
		byDevice[*v.Attachments[0].Device] = v
	}
	return byDevice
}

func TestTrust_D03_AnInstanceHasTheVolumesItWasLaunchedWith(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, types.LaunchTemplateBlockDeviceMappingRequest{
			DeviceName: aws.String("/dev/xvdz"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
				VolumeSize: aws.Int32(100), VolumeType: types.VolumeTypeIo2, Iops: aws.Int32(5000), Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(false),
			},
		})
	})
	in := fleetInput(spot, 1, "m5.large/b")
	in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{
		{Key: aws.String("team"), Value: aws.String("blue")},
	}})
	id := fleetIDs(env.createFleet(in))[0]
	i := env.describe(id)
	var devices []string
	for _, m := range i.BlockDeviceMappings {
		devices = append(devices, *m.DeviceName+" "+string(m.Ebs.Status))
	}
	if diff := cmp.Diff([]string{"/dev/xvda attached", "/dev/xvdz attached"}, devices); diff != "" || aws.ToString(i.RootDeviceName) != "/dev/xvda" || i.RootDeviceType != types.DeviceTypeEbs {
		t.Fatalf("root %s of %s, devices (-want +got):\n%s", aws.ToString(i.RootDeviceName), i.RootDeviceType, diff)
	}
	volumes := env.describeVolumesOf(id)
	root, data := volumes["/dev/xvda"], volumes["/dev/xvdz"]
	if aws.ToInt32(root.Size) != 20 || root.VolumeType != types.VolumeTypeGp3 || aws.ToInt32(root.Iops) != 3000 || aws.ToInt32(root.Throughput) != 125 ||
		root.State != types.VolumeStateInUse || *root.AvailabilityZone != "eu-west-1b" || len(root.Tags) != 1 || !*root.Attachments[0].DeleteOnTermination {
		t.Errorf("root volume %+v", root)
	}
	if aws.ToInt32(data.Size) != 100 || data.VolumeType != types.VolumeTypeIo2 || *data.Iops != 5000 || !*data.Encrypted || *data.Attachments[0].DeleteOnTermination {
		t.Errorf("data volume %+v", data)
	}
	if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	env.advanceClock(time.Minute)
	left, err := env.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: ec2FilterOf("status", "available")})
	if err != nil || len(left.Volumes) != 1 || *left.Volumes[0].VolumeId != *data.VolumeId {
		t.Errorf("after the end there are %+v, %v; want the one that outlives its instance", left, err)
	}
	if _, err := env.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*root.VolumeId}}); apiCode(err) != "InvalidVolume.NotFound" {
		t.Errorf("the root volume: %v", err)
	}
}

func TestTrust_D03_AnImageBringsItsOwnVolumes(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	rocket := imageIDFor("/aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id")
	out, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{rocket}})
	if err != nil {
		t.Fatal(err)
	}
	var devices []string
	for _, m := range out.Images[0].BlockDeviceMappings {
		devices = append(devices, *m.DeviceName)
	}
	if !slices.Equal(devices, []string{"/dev/xvda", "/dev/xvdb"}) {
		t.Errorf("the image has %v", devices)
	}
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.ImageId = &rocket
		d.BlockDeviceMappings = []types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: aws.String("/dev/xvdb"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(50)},
		}}
	})
	volumes := env.describeVolumesOf(env.launch(spot, "m5.large/a"))
	if root, data := volumes["/dev/xvda"], volumes["/dev/xvdb"]; aws.ToInt32(root.Size) != 2 || aws.ToInt32(data.Size) != 50 || len(volumes) != 2 {
		t.Errorf("volumes %+v", volumes)
	}
}

func TestTrust_D03_VolumesCanBeMadeAttachedAndRemoved(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	instance := env.launch(spot, "m5.large/a")
	env.advanceClock(time.Minute)
	made, err := env.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"), Size: aws.Int32(5), TagSpecifications: []types.TagSpecification{
		{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("own")}}},
	}})
	if err != nil || made.State != types.VolumeStateAvailable || made.VolumeType != types.VolumeTypeGp2 {
		t.Fatalf("create: %+v, %v", made, err)
	}
	id := *made.VolumeId
	attach := func() error {
		_, err := env.ec2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance, Device: aws.String("/dev/sdf")})
		return err
	}
	if err := attach(); err != nil {
		t.Fatal(err)
	}
	if got := env.describeVolumesOf(instance)["/dev/sdf"]; aws.ToString(got.VolumeId) != id || len(env.describe(instance).BlockDeviceMappings) != 2 {
		t.Errorf("attached: %+v", got)
	}
	remove := func() error {
		_, err := env.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: &id})
		return err
	}
	if got := [2]string{apiCode(attach()), apiCode(remove())}; got != [2]string{"VolumeInUse", "VolumeInUse"} {
		t.Errorf("attach and delete while in use: %v", got)
	}
	if _, err := env.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &id}); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if code := apiCode(remove()); code != "InvalidVolume.NotFound" {
		t.Errorf("delete again: %s", code)
	}
	elsewhere, err := env.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1b"), Size: aws.Int32(5)})
	if err != nil {
		t.Fatal(err)
	}
	id = *elsewhere.VolumeId
	if code := apiCode(attach()); code != "InvalidVolume.ZoneMismatch" {
		t.Errorf("attach across zones: %s", code)
	}
}

// A volume driver outside, such as that of the simulated nodes, makes volumes that everybody sees.
func TestTrust_D03_VolumesOfADriver(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	instance := env.launch(spot, "m5.large/a")
	v := Volume{ID: "vol-00000000000000001", Zone: "eu-west-1a", SizeGiB: 7, Type: "gp3", Tags: map[string]string{"CSIVolumeName": "pvc-1"}}
	env.emu.MakeVolume(v)
	env.emu.MakeVolume(v)
	env.emu.AttachVolume(v.ID, instance)
	env.emu.AttachVolume(v.ID, instance)
	env.emu.AttachVolume(v.ID, "i-0b007572490000001") // no instance of the account
	if got := env.describeVolumesOf(instance)["/dev/xvdaa"]; aws.ToString(got.VolumeId) != v.ID || *got.Size != 7 || *got.Tags[0].Value != "pvc-1" {
		t.Errorf("volumes %+v", env.describeVolumesOf(instance))
	}
	env.emu.RemoveVolume(v.ID) // still attached
	env.emu.DetachVolume(v.ID)
	if n := len(env.describe(instance).BlockDeviceMappings); n != 1 {
		t.Errorf("the instance has %d devices, want its root", n)
	}
	env.emu.RemoveVolume(v.ID)
	if _, err := env.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{v.ID}}); apiCode(err) != "InvalidVolume.NotFound" {
		t.Errorf("removed: %v", err)
	}
}
