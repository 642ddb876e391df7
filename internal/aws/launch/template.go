package launch

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	templatePrefix = "karpenter.k8s.aws/"
	latestVersion  = "$Latest"
	maxUserData    = 16384 // maximum in bytes that EC2 accepts
)

// recipe is one launch template and what is launched with it.
type recipe struct {
	template *ec2.CreateLaunchTemplateInput
	image    string
	picks    []pick
	userData int // bytes, not encoded
}

func (r recipe) name() string { return *r.template.LaunchTemplateName }

// order is everything a launch is made of.
type order struct {
	request Request
	want    want
	choice  choice
	group   *discover.PlacementGroup
	site    site
}

// divideIntoRecipes divides picks by what their templates must differ in: image, kubelet settings of the type,
// EFA interfaces and reservation. Picks keep their order.
func divideIntoRecipes(o order, picks []pick) ([]recipe, error) {
	images := discover.Choose(o.request.Class.Status.AMIs)
	settings, _ := kubelet.Parse(kubelet.Of(o.request.Class, o.request.Claim.Spec.Kubelet)) // problems are for the class's conditions
	type basis struct {
		image  awsv1.AMI
		config kubelet.Config
		efas   int
		key    string
	}
	known := map[*catalog.InstanceType]basis{}
	at := map[string]int{}
	var list []recipe
	for _, p := range picks {
		b, done := known[p.it]
		if !done {
			image, found := images.For(p.it)
			if !found {
				continue // the catalogue would not have offered it; the class changed meanwhile
			}
			config, err := kubeletFor(settings, p.it, o.site)
			if err != nil {
				return nil, invalid("KubeletExpressionEvaluationFailed", err)
			}
			b = basis{image: image, config: config, efas: o.efas(p.it)}
			b.key = fmt.Sprintf("%s/%d/%d/%v/%v", image.ID, *config.MaxPods, b.efas, config.KubeReserved, config.SystemReserved)
			known[p.it] = b
		}
		key := b.key + "/" + p.reservation
		if n, has := at[key]; has {
			list[n].picks = append(list[n].picks, p)
			continue
		}
		made, err := o.newRecipe(b.image.ID, b.config, b.efas, p.reservation)
		if err != nil {
			return nil, err
		}
		made.picks = []pick{p}
		at[key] = len(list)
		list = append(list, made)
	}
	if len(list) == 0 {
		return nil, noCapacityError("no AMI of the node class suits the available instance types; see status.amis of EC2NodeClass " + o.request.Class.Name)
	}
	return list, nil
}

// userDataTooLong is user data that EC2 would not take.
type userDataTooLong struct {
	class string
	bytes int
}

// Error names the sizes and what to shorten.
func (u userDataTooLong) Error() string {
	return fmt.Sprintf("the user data would have %d bytes and EC2 takes %d; shorten userData or kubelet of EC2NodeClass %s", u.bytes, maxUserData, u.class)
}

func invalid(reason string, err error) error {
	return &cloud.Error{Kind: cloud.Invalid, Op: "write launch template", Reason: reason, Err: err}
}

// efas is how many EFA interfaces a type gets: all it has, if the claim requests any.
func (o order) efas(t *catalog.InstanceType) int {
	if !o.want.efa || len(o.request.Class.Spec.NetworkInterfaces) > 0 {
		return 0
	}
	info, _ := o.site.raw(t.Name)
	if info.NetworkInfo == nil || info.NetworkInfo.EfaInfo == nil {
		return 0
	}
	return int(value(info.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
}

// newRecipe writes one template. Its name is a hash of everything in it, so that the same input shares a
// template and any change makes a new one.
func (o order) newRecipe(image string, config kubelet.Config, efas int, reservation string) (recipe, error) {
	text, err := boot(o.request, o.choice.capacityType, config, o.site)
	if err != nil {
		return recipe{}, invalid("", err)
	}
	if len(text) > maxUserData {
		return recipe{}, invalid(reasonUserDataTooLong, userDataTooLong{o.request.Class.Name, len(text)})
	}
	tags := Tags(o.site.cluster, o.request.Class, o.request.Claim.Labels[karpv1.LabelNodePool])
	input := &ec2.CreateLaunchTemplateInput{
		LaunchTemplateData: o.templateData(image, text, efas, reservation, tags),
		TagSpecifications:  tagged(tags, ec2types.ResourceTypeLaunchTemplate),
	}
	name, err := hashName(input, o.choice.capacityType)
	if err != nil {
		return recipe{}, err
	}
	input.LaunchTemplateName = &name
	return recipe{template: input, image: image, userData: len(text)}, nil
}

func hashName(input *ec2.CreateLaunchTemplateInput, capacityType string) (string, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("hash of a launch template: %w", err)
	}
	sum := sha256.Sum256(append(text, capacityType...))
	return templatePrefix + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10), nil
}

// templateData is the content of a template (AWS provider 5.3).
func (o order) templateData(image, userData string, efas int, reservation string, tags map[string]string) *ec2types.RequestLaunchTemplateData {
	class := o.request.Class
	data := &ec2types.RequestLaunchTemplateData{
		ImageId:                          &image,
		UserData:                         new(base64.StdEncoding.EncodeToString([]byte(userData))),
		Monitoring:                       &ec2types.LaunchTemplatesMonitoringRequest{Enabled: new(value(class.Spec.DetailedMonitoring))},
		BlockDeviceMappings:              devices(class),
		MetadataOptions:                  metadata(class, o.site.region),
		NetworkInterfaces:                interfaces(class, efas, o.site.ipv6),
		Placement:                        o.placement(),
		CapacityReservationSpecification: o.reservationUse(reservation),
		InstanceMarketOptions:            o.market(),
	}
	if class.Status.InstanceProfile != "" {
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &class.Status.InstanceProfile}
	}
	if o.want.enclave {
		data.EnclaveOptions = &ec2types.LaunchTemplateEnclaveOptionsRequest{Enabled: new(true)}
	}
	if cpu := class.Spec.CPUOptions; cpu != nil && cpu.NestedVirtualization != nil {
		data.CpuOptions = &ec2types.LaunchTemplateCpuOptionsRequest{
			NestedVirtualization: ec2types.NestedVirtualizationSpecification(*cpu.NestedVirtualization),
		}
	}
	kinds := []ec2types.ResourceType{ec2types.ResourceTypeNetworkInterface}
	if o.choice.capacityType == karpv1.CapacityTypeSpot {
		kinds = append(kinds, ec2types.ResourceTypeSpotInstancesRequest)
	}
	for _, spec := range tagged(tags, kinds...) {
		data.TagSpecifications = append(data.TagSpecifications, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: spec.ResourceType, Tags: spec.Tags})
	}
	return data
}

func (o order) placement() *ec2types.LaunchTemplatePlacementRequest {
	p := &ec2types.LaunchTemplatePlacementRequest{Tenancy: ec2types.Tenancy(o.choice.tenancy)}
	if o.group == nil {
		return p
	}
	p.GroupId = &o.group.ID
	if n, err := strconv.ParseInt(o.choice.partition, 10, 32); err == nil {
		p.PartitionNumber = new(int32(n))
	}
	return p
}

// reservationUse says which reservation is used. Without an id none is used: an open reservation that happens to
// match is meant for other instances (F10).
func (o order) reservationUse(id string) *ec2types.LaunchTemplateCapacityReservationSpecificationRequest {
	switch {
	case !o.site.reserved:
		return nil
	case id == "":
		return &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone,
		}
	default:
		return &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &id},
		}
	}
}

func (o order) market() *ec2types.LaunchTemplateInstanceMarketOptionsRequest {
	if o.choice.capacityType != karpv1.CapacityTypeReserved {
		return nil
	}
	switch o.choice.kind {
	case block:
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock}
	case interruptible:
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeInterruptibleCapacityReservation}
	default:
		return nil
	}
}
