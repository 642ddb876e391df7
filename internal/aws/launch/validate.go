package launch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Reasons why a class cannot launch.
const (
	reasonTemplateDenied  = "CreateLaunchTemplateAuthCheckFailed"
	reasonFleetDenied     = "CreateFleetAuthCheckFailed"
	reasonRunDenied       = "RunInstancesAuthCheckFailed"
	reasonUserDataTooLong = "UserDataSizeLimitExceeded"
	reasonUserDataInvalid = "InvalidUserData"
	reasonProfileMissing  = "InstanceProfileNotFound"
)

// Validate tries a launch with a class by a dry run (EC2NodeClass 18). Reason and message say what is wrong; both are
// empty if nothing is. Retry says that the verdict may change by itself: it must be determined again soon and not be
// cached. An error is no verdict: EC2 throttled the call, or failed.
func (l *Launcher) Validate(ctx context.Context, class *awsv1.EC2NodeClass) (reason, message string, retry bool, err error) {
	if l.o.Settings.DryRunDisabled {
		return "", "", false, nil
	}
	trial, err := l.newTrialLaunch(ctx, class)
	if err != nil {
		return trialVerdict(err)
	}
	release, err := l.templates.holdTemplate(ctx, trial.recipe.template)
	if err != nil {
		return dryRunVerdict(class, reasonTemplateDenied, "ec2:CreateLaunchTemplate", err)
	}
	defer release()
	once := func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }
	request := fleetRequest(trial.order, []recipe{trial.recipe})
	request.DryRun = new(true)
	if _, err = l.o.EC2.CreateFleet(ctx, request, once); err != nil {
		if reason, message, retry, err := dryRunVerdict(class, reasonFleetDenied, "ec2:CreateFleet", err); reason != "" || err != nil {
			return reason, message, retry, err
		}
	}
	var first error
	for n, subnet := range class.Status.Subnets {
		_, err := l.o.EC2.RunInstances(ctx, trial.run(subnet.ID), once)
		if err == nil || awserr.DryRunPassed(err) {
			return "", "", false, nil
		}
		if !awserr.Refused(err) {
			return "", "", true, fmt.Errorf("dry run of RunInstances in %s: %w", subnet.ID, err)
		}
		if n == 0 {
			first = err
		}
	}
	if first == nil {
		return "", "", false, nil
	}
	reason, message, retry, err = dryRunVerdict(class, reasonRunDenied, "ec2:RunInstances", first)
	if reason == "" && err == nil { // such as a type that is not offered there: nothing about the class
		log.FromContext(ctx).V(1).Info("dry run of an instance failed", "error", first.Error())
	}
	return reason, message, retry, err
}

// trialVerdict says what is wrong with a class for which no launch can even be written down.
func trialVerdict(err error) (reason, message string, retry bool, failed error) {
	if !cloud.Is(err, cloud.Invalid) {
		return "", "", true, err
	}
	known := asCloud("", err)
	return cmp.Or(known.Reason, reasonUserDataInvalid), known.Error(), false, nil
}

// dryRunVerdict says what an error of a dry run means. Errors about neither permissions nor the class count as
// passed.
func dryRunVerdict(class *awsv1.EC2NodeClass, denied, action string, err error) (reason, message string, retry bool, failed error) {
	why, text := awserr.LaunchReason(awserr.Code(err), awserr.Text(err))
	switch {
	case awserr.DryRunPassed(err):
		return "", "", false, nil
	case !awserr.Refused(err):
		return "", "", true, fmt.Errorf("dry run of %s: %w", action, err)
	case awserr.Unauthorized(err):
		return denied, "the controller may not call " + deniedAction(err, action) + ": " + text, false, nil
	case why == reasonUserDataTooLong:
		return reasonUserDataTooLong, text, false, nil
	case why == "InstanceProfileNameInvalid" && class.Spec.InstanceProfile != nil:
		return reasonProfileMissing, fmt.Sprintf("EC2 does not know the instance profile %s of spec.instanceProfile; create it, or correct the name", *class.Spec.InstanceProfile), true, nil
	case why == "InstanceProfileNameInvalid": // just made by us, and EC2 takes a moment to see it (A11)
		return "", "", true, fmt.Errorf("dry run of %s: %w", action, err)
	default:
		return "", "", false, nil
	}
}

// deniedAction is the action that EC2 names as denied: a fleet needs others beside its own.
func deniedAction(err error, requested string) string {
	if action := awserr.DeniedAction(err); action != "" && action != requested {
		return action + ", which " + requested + " needs"
	}
	return requested
}

// trialLaunch is a launch for a dry run.
type trialLaunch struct {
	order  order
	recipe recipe
}

// newTrialLaunch writes a launch down that stands for those of a class.
func (l *Launcher) newTrialLaunch(ctx context.Context, class *awsv1.EC2NodeClass) (trialLaunch, error) {
	var pools []karpv1.NodePool
	if l.o.Pools != nil {
		var err error
		if pools, err = l.o.Pools(ctx, class); err != nil {
			return trialLaunch{}, fmt.Errorf("pools of EC2NodeClass %s: %w", class.Name, err)
		}
	}
	types, err := l.o.Catalog.Types(class, nil)
	if err != nil {
		return trialLaunch{}, fmt.Errorf("instance types of EC2NodeClass %s: %w", class.Name, err)
	}
	sample, tenancy, found := sampleType(class, types, pools)
	if !found {
		return trialLaunch{}, fmt.Errorf("no instance type suits an AMI of EC2NodeClass %s", class.Name)
	}
	s, err := l.clusterSite(ctx, class)
	if err != nil {
		return trialLaunch{}, err
	}
	group, err := l.placementGroupOf(ctx, class)
	if err != nil {
		return trialLaunch{}, err
	}
	pool := class.Name // permissions require the tag, with any value
	if len(pools) > 0 {
		pool = pools[0].Name
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "validation", Labels: map[string]string{karpv1.LabelNodePool: pool}}}
	o := order{
		request: Request{Claim: claim, Class: class}, group: group, site: s,
		choice: choice{capacityType: karpv1.CapacityTypeOnDemand, tenancy: tenancy},
	}
	var picks []pick
	for _, subnet := range class.Status.Subnets {
		picks = append(picks, pick{it: sample, zone: subnet.Zone, subnet: subnet.ID, zoneID: subnet.ZoneID})
	}
	if len(picks) == 0 {
		return trialLaunch{}, fmt.Errorf("EC2NodeClass %s has no subnets yet", class.Name)
	}
	list, err := divideIntoRecipes(o, picks)
	l.measureUserData(ctx, class, list, err)
	if err != nil {
		return trialLaunch{}, err
	}
	return trialLaunch{order: o, recipe: list[0]}, nil
}

// sampleType is the type that represents a class: one that a pool of the class can launch, preferably with an
// ordinary image; else a common one; else any. It comes with the tenancy to try.
func sampleType(class *awsv1.EC2NodeClass, types []catalog.InstanceType, pools []karpv1.NodePool) (*catalog.InstanceType, string, bool) {
	images := discover.Choose(class.Status.AMIs)
	tenancy := tenancyDefault
	var ofPools, common, others []*catalog.InstanceType
	var needs []reqs.Set
	for i := range pools {
		set := poolNeeds(&pools[i])
		if r, requested := set[awsv1.LabelInstanceTenancy]; requested && r.Has(tenancyDedicated) {
			tenancy = tenancyDedicated
		}
		for _, key := range offeringLabelKeys() {
			delete(set, key)
		}
		needs = append(needs, set)
	}
	windows := ami.Of(class.Family()).Windows()
	for i := range types {
		t := &types[i]
		if _, fits := images.For(t); !fits {
			continue
		}
		wanted := slices.ContainsFunc(needs, func(set reqs.Set) bool {
			_, conflict := set.Conflict(t.Labels)
			return !conflict
		})
		switch {
		case wanted && !windows:
			ofPools = append(ofPools, t)
		case t.Name == "m5.large" || t.Name == "m6g.large":
			common = append(common, t)
		default:
			others = append(others, t)
		}
	}
	for _, list := range [][]*catalog.InstanceType{ofPools, common, others} {
		slices.SortStableFunc(list, func(a, b *catalog.InstanceType) int {
			return cmp.Or(cmp.Compare(typeRank(a), typeRank(b)), cmp.Compare(a.Name, b.Name))
		})
		if len(list) > 0 {
			return list[0], tenancy, true
		}
	}
	return nil, "", false
}

// typeRank puts types with an ordinary image first, and among those what is common.
func typeRank(t *catalog.InstanceType) int {
	switch {
	case hasSpecialHardware(t):
		return 2
	case t.Name == "m5.large" || t.Name == "m6g.large":
		return 0
	default:
		return 1
	}
}

// poolNeeds is what a pool requires of instance types; requirements that cannot be read are left out.
func poolNeeds(pool *karpv1.NodePool) reqs.Set {
	set, _ := reqs.FromEntries(karpv1.Entries(pool.Spec.Template.Spec.Requirements), awsv1.Vocabulary())
	return set
}

// run is the request to launch one instance in a subnet. A subnet and interfaces cannot be given side by
// side, so every interface names the subnet.
func (t trialLaunch) run(subnet string) *ec2.RunInstancesInput {
	input := &ec2.RunInstancesInput{
		DryRun: new(true), MinCount: new(int32(1)), MaxCount: new(int32(1)),
		InstanceType:   ec2types.InstanceType(t.recipe.picks[0].it.Name),
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: new(t.recipe.name()), Version: new(latestVersion)},
		TagSpecifications: tagged(Tags(t.order.site.cluster, t.order.request.Class, t.order.request.Claim.Labels[karpv1.LabelNodePool]),
			ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface),
	}
	for _, n := range t.recipe.template.LaunchTemplateData.NetworkInterfaces {
		input.NetworkInterfaces = append(input.NetworkInterfaces, ec2types.InstanceNetworkInterfaceSpecification{
			AssociatePublicIpAddress: n.AssociatePublicIpAddress, ConnectionTrackingSpecification: n.ConnectionTrackingSpecification,
			DeviceIndex: n.DeviceIndex, Groups: n.Groups, InterfaceType: n.InterfaceType, Ipv4PrefixCount: n.Ipv4PrefixCount,
			Ipv6AddressCount: n.Ipv6AddressCount, Ipv6PrefixCount: n.Ipv6PrefixCount, NetworkCardIndex: n.NetworkCardIndex,
			PrimaryIpv6: n.PrimaryIpv6, SubnetId: &subnet,
		})
	}
	return input
}
