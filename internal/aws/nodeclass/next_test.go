package nodeclass_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

var (
	start     = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	errOutage = errors.New("outage")
)

// good are facts about a class with which nothing is wrong.
func good() nodeclass.Facts {
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u1", Generation: 2, Finalizers: []string{awsv1.FinalizerTermination}, CreationTimestamp: start},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			Role:                       "nodes",
		},
	}
	return nodeclass.Facts{
		Class: class, Cluster: awsv1.Facts{ClusterName: "demo", KubernetesMinor: 34}, Kubernetes: "1.34", Now: start,
		Settings:       nodeclass.Settings{ReservedCapacity: true, NodeClassCEL: true},
		Subnets:        nodeclass.Lookup[[]discover.Subnet]{Value: []discover.Subnet{{ID: "subnet-1", Zone: "eu-west-1a", ZoneID: "euw1-az1", Free: 9}}},
		SecurityGroups: nodeclass.Lookup[[]awsv1.SecurityGroup]{Value: []awsv1.SecurityGroup{{ID: "sg-1", Name: "nodes"}}},
		Images:         nodeclass.Lookup[[]awsv1.AMI]{Value: []awsv1.AMI{{ID: "ami-1"}}},
		Profile:        nodeclass.Lookup[string]{Value: "demo_1"},
		ServiceCIDR:    nodeclass.Lookup[string]{Value: "10.100.0.0/16"},
		DryRun:         &nodeclass.Verdict{},
	}
}

func with(change func(*nodeclass.Facts)) nodeclass.Facts {
	f := good()
	change(&f)
	return f
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestReadyClass(t *testing.T) {
	t.Parallel()
	step := nodeclass.Next(good())
	if step.Err != nil || step.DryRun || step.Clean || step.Keep {
		t.Fatalf("step %+v", step)
	}
	want := awsv1.EC2NodeClassStatus{
		Subnets:        []awsv1.Subnet{{ID: "subnet-1", Zone: "eu-west-1a", ZoneID: "euw1-az1"}},
		SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1", Name: "nodes"}},
		AMIs:           []awsv1.AMI{{ID: "ami-1"}}, InstanceProfile: "demo_1",
	}
	if diff := cmp.Diff(want, step.Status, cmpopts.IgnoreFields(awsv1.EC2NodeClassStatus{}, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	list := step.Status.Conditions
	if len(list) != 8 || list[7].Type != "Ready" {
		t.Errorf("conditions %v", list)
	}
	for _, c := range list {
		if c.Status != metav1.ConditionTrue || c.Reason != c.Type || c.Message != "" || c.ObservedGeneration != 2 {
			t.Errorf("condition %+v", c)
		}
	}
	if diff := cmp.Diff(step.Status, step.Effective.Status); diff != "" {
		t.Errorf("the effective class has another status:\n%s", diff)
	}
}

// EC2NodeClass 5: every reason, and whether the message names the fix (S-175..S-179).
func TestConditionReasons(t *testing.T) {
	t.Parallel()
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	verdict := func(reason string) func(*nodeclass.Facts) {
		return func(f *nodeclass.Facts) {
			f.DryRun = &nodeclass.Verdict{Reason: reason, Message: "ec2:CreateFleet is denied"}
		}
	}
	kubeletOf := func(text string) func(*nodeclass.Facts) {
		return func(f *nodeclass.Facts) { f.Class.Spec.Kubelet = raw(text) }
	}
	for name, tc := range map[string]struct {
		change  func(*nodeclass.Facts)
		of      string
		status  metav1.ConditionStatus
		reason  string
		message string
		wantErr bool
	}{
		"S-176 no subnets": {
			change: func(f *nodeclass.Facts) { f.Subnets.Value = nil },
			of:     "SubnetsReady", status: no, reason: "SubnetsNotFound", message: "tag karpenter.sh/discovery=demo",
		},
		"subnets cannot be looked up": {
			change: func(f *nodeclass.Facts) { f.Subnets = nodeclass.Lookup[[]discover.Subnet]{Err: errOutage} },
			of:     "SubnetsReady", status: unknown, reason: "SubnetsResolutionFailed", message: "outage", wantErr: true,
		},
		"S-177 no security groups": {
			change: func(f *nodeclass.Facts) { f.SecurityGroups.Value = nil },
			of:     "SecurityGroupsReady", status: no, reason: "SecurityGroupsNotFound", message: "tag karpenter.sh/discovery=demo",
		},
		"L-08 no terms, and the cluster has no group": {
			change: func(f *nodeclass.Facts) {
				f.SecurityGroups.Value, f.Class.Spec.SecurityGroupSelectorTerms = nil, nil
				f.Class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}}
			},
			of: "SecurityGroupsReady", status: no, reason: "SecurityGroupsNotFound", message: "securityGroupSelectorTerms is not set",
		},
		"security groups cannot be looked up": {
			change: func(f *nodeclass.Facts) {
				f.SecurityGroups.Err = &smithy.GenericAPIError{Code: "RequestLimitExceeded", Message: "slow down"}
			},
			of: "SecurityGroupsReady", status: unknown, reason: "SecurityGroupsResolutionFailed", message: "AWS returned RequestLimitExceeded: slow down", wantErr: true,
		},
		"S-178 no image for the alias": {
			change: func(f *nodeclass.Facts) {
				f.Images.Value, f.Class.Spec.AMISelectorTerms = nil, []awsv1.AMISelectorTerm{{Alias: "al2023@v1"}}
			},
			of: "AMIsReady", status: no, reason: "AMINotFound", message: "alias al2023@v1 under Kubernetes 1.34; use al2023@latest",
		},
		"S-080 an alias without a version is named in full": {
			change: func(f *nodeclass.Facts) {
				f.Images.Value, f.Class.Spec.AMISelectorTerms = nil, []awsv1.AMISelectorTerm{{Alias: "al2023"}}
			},
			of: "AMIsReady", status: no, reason: "AMINotFound", message: "alias al2023@latest",
		},
		"E14 no image for the terms": {
			change: func(f *nodeclass.Facts) {
				f.Images.Value, f.Class.Spec.AMIFamily = nil, awsv1.FamilyAL2023
				f.Class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-9"}, {Name: "mine-*", Owner: "self"}}
			},
			of: "AMIsReady", status: no, reason: "AMINotFound", message: "id ami-9; or name mine-*, owner self",
		},
		"L-17 a pinned AL2 on 1.34": {
			change: func(f *nodeclass.Facts) {
				f.Class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2@v20240807"}}
			},
			of: "AMIsReady", status: no, reason: "UnsupportedAlias", message: "al2023@latest",
		},
		"L-17 the latest AL2 on 1.34 is AL2023": {
			change: func(f *nodeclass.Facts) {
				f.Class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2@latest"}}
			},
			of: "AMIsReady", status: yes, reason: "AMIsReady",
		},
		"E13 images cannot be looked up": {
			change: func(f *nodeclass.Facts) { f.Images = nodeclass.Lookup[[]awsv1.AMI]{Err: errOutage} },
			of:     "AMIsReady", status: unknown, reason: "AMIsResolutionFailed", message: "outage", wantErr: true,
		},
		"the Kubernetes version is not known": {
			change: func(f *nodeclass.Facts) { f.Kubernetes, f.Cluster.KubernetesMinor, f.Images.Value = "", 0, nil },
			of:     "AMIsReady", status: unknown, reason: "AMIsResolutionFailed", message: "Kubernetes version", wantErr: true,
		},
		"S-179 the role does not exist": {
			change: func(f *nodeclass.Facts) {
				f.Profile = nodeclass.Lookup[string]{Err: &cloud.Error{Kind: cloud.Invalid, Reason: "RoleNotFound", Message: "IAM role nodes does not exist"}}
			},
			of: "InstanceProfileReady", status: no, reason: "RoleNotFound", message: "IAM role nodes does not exist", wantErr: true,
		},
		"IAM denies": {
			change: func(f *nodeclass.Facts) {
				f.Profile = nodeclass.Lookup[string]{Err: &cloud.Error{Kind: cloud.Denied, Reason: "InstanceProfileUnauthorized", Message: "iam:CreateInstanceProfile"}}
			},
			of: "InstanceProfileReady", status: no, reason: "InstanceProfileUnauthorized", message: "iam:CreateInstanceProfile", wantErr: true,
		},
		"IAM does not respond": {
			change: func(f *nodeclass.Facts) { f.Profile = nodeclass.Lookup[string]{Err: errOutage} },
			of:     "InstanceProfileReady", status: unknown, reason: "InstanceProfileResolutionFailed", message: "outage", wantErr: true,
		},
		"no placement group is wanted": {
			change: func(*nodeclass.Facts) {}, of: "PlacementGroupReady", status: yes, reason: "PlacementGroupReady",
		},
		"no such placement group": {
			change: func(f *nodeclass.Facts) {
				f.Class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"}
			},
			of: "PlacementGroupReady", status: no, reason: "PlacementGroupNotFound", message: "named g",
		},
		"the placement group cannot be looked up": {
			change: func(f *nodeclass.Facts) {
				f.Class.Spec.PlacementGroupSelector, f.PlacementGroup.Err = &awsv1.PlacementGroupSelector{ID: "pg-1"}, errOutage
			},
			of: "PlacementGroupReady", status: no, reason: "PlacementGroupResolutionFailed", message: "outage", wantErr: true,
		},
		"the placement group is there": {
			change: func(f *nodeclass.Facts) {
				f.Class.Spec.PlacementGroupSelector, f.PlacementGroup.Value = &awsv1.PlacementGroupSelector{ID: "pg-1"}, &discover.PlacementGroup{ID: "pg-1"}
			},
			of: "PlacementGroupReady", status: yes, reason: "PlacementGroupReady",
		},
		"no reservations are fine": {change: func(*nodeclass.Facts) {}, of: "CapacityReservationsReady", status: yes, reason: "CapacityReservationsReady"},
		"reservations cannot be looked up": {
			change: func(f *nodeclass.Facts) { f.Reservations.Err = errOutage },
			of:     "CapacityReservationsReady", status: unknown, reason: "CapacityReservationsResolutionFailed", message: "outage", wantErr: true,
		},
		"strict compatibility refuses an alias without a version": {
			change: func(f *nodeclass.Facts) {
				f.Cluster.Strict, f.Class.Spec.AMISelectorTerms = true, []awsv1.AMISelectorTerm{{Alias: "al2023"}}
			},
			of: "ValidationSucceeded", status: no, reason: "NodeClassValidationFailed", message: "al2023@latest",
		},
		"AL2023 without a service CIDR": {
			change: func(f *nodeclass.Facts) { f.ServiceCIDR.Value = "" },
			of:     "ValidationSucceeded", status: no, reason: "ClusterCIDRResolutionFailed", message: "service CIDR", wantErr: true,
		},
		"AL2023, EKS denies": {
			change: func(f *nodeclass.Facts) {
				f.ServiceCIDR = nodeclass.Lookup[string]{Err: &smithy.GenericAPIError{Code: "AccessDeniedException"}}
			},
			of: "ValidationSucceeded", status: no, reason: "ClusterCIDRResolutionFailed", message: "eks:DescribeCluster", wantErr: true,
		},
		"AL2023, EKS fails": {
			change: func(f *nodeclass.Facts) {
				f.ServiceCIDR = nodeclass.Lookup[string]{Err: &smithy.GenericAPIError{Code: "InternalFailure"}}
			},
			of: "ValidationSucceeded", status: unknown, reason: "AwaitingReconciliation", wantErr: true,
		},
		"Bottlerocket needs no service CIDR": {
			change: func(f *nodeclass.Facts) {
				f.ServiceCIDR, f.Class.Spec.AMISelectorTerms = nodeclass.Lookup[string]{}, []awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}
			},
			of: "ValidationSucceeded", status: yes, reason: "ValidationSucceeded",
		},
		"invalid kubelet":                {change: kubeletOf(`{"maxPods":-1}`), of: "ValidationSucceeded", status: no, reason: "InvalidKubeletConfiguration", message: "maxPods is -1"},
		"kubelet expression, gate off":   {change: func(f *nodeclass.Facts) { kubeletOf(`{"maxPods":"1"}`)(f); f.Settings.NodeClassCEL = false }, of: "ValidationSucceeded", status: no, reason: "KubeletExpressionsDisabled", message: "NodeClassCEL"},
		"kubelet expression, unreadable": {change: kubeletOf(`{"maxPods":"("}`), of: "ValidationSucceeded", status: no, reason: "KubeletExpressionInvalid", message: "maxPods"},
		"kubelet of another family": {
			change: func(f *nodeclass.Facts) {
				kubeletOf(`{"podsPerCore":2}`)(f)
				f.Class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}
			},
			of: "ValidationSucceeded", status: no, reason: "UnsupportedKubeletConfiguration", message: "podsPerCore",
		},
		"a dependency is false": {
			change: func(f *nodeclass.Facts) { f.Subnets.Value, f.Images.Err = nil, errOutage },
			of:     "ValidationSucceeded", status: no, reason: "DependenciesNotReady", message: "SubnetsReady=False, AMIsReady=Unknown", wantErr: true,
		},
		"a dependency is open": {
			change: func(f *nodeclass.Facts) { f.Images.Err = errOutage },
			of:     "ValidationSucceeded", status: unknown, reason: "DependenciesNotReady", message: "AMIsReady=Unknown", wantErr: true,
		},
		"an expression fails for a type": {
			change: func(f *nodeclass.Facts) {
				kubeletOf(`{"maxPods":"vcpus - 3"}`)(f)
				f.Machines.Value = []kubelet.Machine{{Type: "m5.xlarge", VCPUs: 4}, {Type: "m5.large", VCPUs: 2}}
			},
			of: "ValidationSucceeded", status: no, reason: "KubeletExpressionEvaluationFailed", message: "m5.large",
		},
		"an expression works for all types": {
			change: func(f *nodeclass.Facts) {
				kubeletOf(`{"maxPods":"vcpus * 3"}`)(f)
				f.Machines.Value = []kubelet.Machine{{Type: "m5.large", VCPUs: 2}}
			},
			of: "ValidationSucceeded", status: yes, reason: "ValidationSucceeded",
		},
		"instance types are not loaded": {
			change: func(f *nodeclass.Facts) { kubeletOf(`{"maxPods":"vcpus"}`)(f); f.Machines.Err = errOutage },
			of:     "ValidationSucceeded", status: unknown, reason: "AwaitingReconciliation", wantErr: true,
		},
		"A15 a reserved tag": {
			change: func(f *nodeclass.Facts) { f.Class.Spec.Tags = map[string]string{"kubernetes.io/cluster/demo": "owned"} },
			of:     "ValidationSucceeded", status: no, reason: "TagValidationFailed", message: "kubernetes.io/cluster/demo",
		},
		"a template may not be created": {change: verdict("CreateLaunchTemplateAuthCheckFailed"), of: "ValidationSucceeded", status: no, reason: "CreateLaunchTemplateAuthCheckFailed", message: "denied"},
		"E17 a fleet may not be made":   {change: verdict("CreateFleetAuthCheckFailed"), of: "ValidationSucceeded", status: no, reason: "CreateFleetAuthCheckFailed", message: "ec2:CreateFleet"},
		"instances may not be run":      {change: verdict("RunInstancesAuthCheckFailed"), of: "ValidationSucceeded", status: no, reason: "RunInstancesAuthCheckFailed", message: "denied"},
		"A15 user data is too long":     {change: verdict("UserDataSizeLimitExceeded"), of: "ValidationSucceeded", status: no, reason: "UserDataSizeLimitExceeded", message: "denied"},
		"the profile does not exist":    {change: verdict("InstanceProfileNotFound"), of: "ValidationSucceeded", status: no, reason: "InstanceProfileNotFound", message: "denied"},
		"E17 the dry run is throttled":  {change: func(f *nodeclass.Facts) { f.DryRun = &nodeclass.Verdict{Err: errOutage} }, of: "ValidationSucceeded", status: unknown, reason: "AwaitingReconciliation", wantErr: true},
		"dry runs are turned off":       {change: func(f *nodeclass.Facts) { f.DryRun, f.Settings.DryRunDisabled = nil, true }, of: "ValidationSucceeded", status: yes, reason: "ValidationSucceeded"},
		"Ready with something false": {
			change: func(f *nodeclass.Facts) { f.Subnets.Value = nil },
			of:     "Ready", status: no, reason: "UnhealthyDependents", message: "SubnetsReady=False, ValidationSucceeded=False",
		},
		"Ready with something open": {
			change: func(f *nodeclass.Facts) { f.Subnets = nodeclass.Lookup[[]discover.Subnet]{Err: errOutage} },
			of:     "Ready", status: unknown, reason: "ReconcilingDependents", message: "SubnetsReady=Unknown", wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := nodeclass.Next(with(tc.change))
			got := condition.Find(step.Status.Conditions, tc.of)
			if got == nil || got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("condition %+v, want %s %s with %q", got, tc.status, tc.reason, tc.message)
			}
			if (step.Err != nil) != tc.wantErr {
				t.Errorf("error %v", step.Err)
			}
		})
	}
}

// E13, E15, E17: after an error the last response stands in conditions and status, at the same generation.
func TestFM_E13_ErrorsChangeNothing(t *testing.T) {
	t.Parallel()
	f := good()
	f.Reservations.Value = []discover.Reservation{{CapacityReservation: awsv1.CapacityReservation{ID: "cr-1"}}}
	f.Class.Status = nodeclass.Next(f).Status
	fail := func(f *nodeclass.Facts) {
		f.Subnets, f.SecurityGroups = nodeclass.Lookup[[]discover.Subnet]{Err: errOutage}, nodeclass.Lookup[[]awsv1.SecurityGroup]{Err: errOutage}
		f.Images, f.Reservations = nodeclass.Lookup[[]awsv1.AMI]{Err: errOutage}, nodeclass.Lookup[[]discover.Reservation]{Err: errOutage}
		f.Profile = nodeclass.Lookup[string]{Err: &cloud.Error{Kind: cloud.Denied, Reason: "InstanceProfileUnauthorized"}}
		f.DryRun = &nodeclass.Verdict{Err: errOutage}
	}
	fail(&f)
	step := nodeclass.Next(f)
	if diff := cmp.Diff(f.Class.Status, step.Status); diff != "" || step.Err == nil {
		t.Errorf("error %v; status changed (-before +after):\n%s", step.Err, diff)
	}

	// A17: at another generation the lists stay, but the class is not ready.
	f.Class.Generation++
	step = nodeclass.Next(f)
	if diff := cmp.Diff(f.Class.Status, step.Status, cmpopts.IgnoreFields(awsv1.EC2NodeClassStatus{}, "Conditions")); diff != "" {
		t.Errorf("lists changed (-before +after):\n%s", diff)
	}
	if ready := condition.Find(step.Status.Conditions, "Ready"); ready.Status == metav1.ConditionTrue || ready.ObservedGeneration != f.Class.Generation {
		t.Errorf("ready %+v", ready)
	}
}

// An empty response, unlike an error, empties the status: nothing is launched with it, and drift does not
// compare with it.
func TestFM_E15_EmptyResponses(t *testing.T) {
	t.Parallel()
	f := good()
	f.Class.Status = nodeclass.Next(f).Status
	f.Subnets.Value, f.SecurityGroups.Value, f.Images.Value = nil, nil, nil
	got := nodeclass.Next(f).Status
	if len(got.Subnets)+len(got.SecurityGroups)+len(got.AMIs) > 0 || condition.True(got.Conditions, "Ready") {
		t.Errorf("status %+v", got)
	}
}

func TestDryRunIsRequested(t *testing.T) {
	t.Parallel()
	f := with(func(f *nodeclass.Facts) { f.DryRun = nil })
	step := nodeclass.Next(f)
	if !step.DryRun || step.Effective.Status.InstanceProfile != "demo_1" || step.Effective.Spec.MetadataOptions == nil {
		t.Errorf("step %+v", step)
	}
	for name, change := range map[string]func(*nodeclass.Facts){
		"not before the dependencies are there": func(f *nodeclass.Facts) { f.Subnets.Value = nil },
		"not with a bad kubelet":                func(f *nodeclass.Facts) { f.Class.Spec.Kubelet = raw(`{"x":1}`) },
		"not if it is turned off":               func(f *nodeclass.Facts) { f.Settings.DryRunDisabled = true },
	} {
		next := with(change)
		next.DryRun = nil
		if nodeclass.Next(next).DryRun {
			t.Error(name)
		}
	}
}

// EC2NodeClass 6: the shortest of all waits.
func TestNextLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*nodeclass.Facts)
		want   time.Duration
	}{
		"subnets every minute": {func(*nodeclass.Facts) {}, time.Minute},
		"a reservation that ends": {func(f *nodeclass.Facts) {
			f.Reservations.Value = []discover.Reservation{{CapacityReservation: awsv1.CapacityReservation{EndTime: new(metav1.NewTime(start.Add(20 * time.Second)))}}}
		}, 20 * time.Second},
		"a verdict that may change": {func(f *nodeclass.Facts) {
			f.DryRun = &nodeclass.Verdict{Reason: "InstanceProfileNotFound", Retry: true}
		}, 5 * time.Second},
		"instance types not loaded":   {func(f *nodeclass.Facts) { f.Class.Spec.Kubelet = raw(`{"maxPods":"1"}`) }, 5 * time.Second},
		"a verdict that will not":     {func(f *nodeclass.Facts) { f.DryRun = &nodeclass.Verdict{Reason: "CreateFleetAuthCheckFailed"} }, time.Minute},
		"an alias that cannot exist ": {func(f *nodeclass.Facts) { f.Class.Spec.AMISelectorTerms[0].Alias = "windows2025@latest" }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nodeclass.Next(with(tc.change)); got.After != tc.want {
				t.Errorf("after %s, want %s", got.After, tc.want)
			}
		})
	}
}

func TestReservedCapacityGate(t *testing.T) {
	t.Parallel()
	f := good()
	f.Reservations.Value = []discover.Reservation{{CapacityReservation: awsv1.CapacityReservation{ID: "cr-1"}}}
	f.Class.Status = nodeclass.Next(f).Status
	if len(f.Class.Status.CapacityReservations) != 1 {
		t.Fatal("the reservation is missing")
	}
	f.Settings.ReservedCapacity = false
	got := nodeclass.Next(f).Status
	if len(got.CapacityReservations) > 0 || condition.Find(got.Conditions, "CapacityReservationsReady") != nil || !condition.True(got.Conditions, "Ready") {
		t.Errorf("status %+v", got)
	}
}

// What was read into a class is reported once per generation. S-077: a profile given as a role is one such thing.
func TestS_077_AssumptionsAreReportedOnce(t *testing.T) {
	t.Parallel()
	f := with(func(f *nodeclass.Facts) {
		f.Class.Spec.Role, f.Profile.Value = "KarpenterNodeInstanceProfile", "KarpenterNodeInstanceProfile"
	})
	first := nodeclass.Next(f)
	if len(first.Assumed) != 1 || first.Assumed[0].Code != reason.ProfileGivenAsRole || *first.Effective.Spec.InstanceProfile != "KarpenterNodeInstanceProfile" {
		t.Fatalf("assumed %v", first.Assumed)
	}
	f.Class.Status = first.Status
	if second := nodeclass.Next(f); len(second.Assumed) > 0 {
		t.Errorf("reported twice: %v", second.Assumed)
	}
}

func TestFM_A08_Deletion(t *testing.T) {
	t.Parallel()
	deleting := func(claims ...string) nodeclass.Facts {
		return with(func(f *nodeclass.Facts) { f.Class.DeletionTimestamp, f.Claims = &start, claims })
	}
	step := nodeclass.Next(deleting("a", "b", "c", "d", "e", "f", "g"))
	if step.Clean || !step.Keep || step.After != 10*time.Minute || len(step.Events) != 1 {
		t.Fatalf("step %+v", step)
	}
	if e := step.Events[0]; e.Reason != "WaitingOnNodeClaimTermination" || !strings.HasSuffix(e.Text, "a, b, c, d, e and 2 more") {
		t.Errorf("event %+v", e)
	}
	if step = nodeclass.Next(deleting("a")); !strings.HasSuffix(step.Events[0].Text, ": a") {
		t.Errorf("event %+v", step.Events)
	}
	if step = nodeclass.Next(deleting()); !step.Clean || len(step.Events) > 0 {
		t.Errorf("step %+v", step)
	}
	f := deleting()
	f.Class.Finalizers = nil
	if step = nodeclass.Next(f); step.Clean {
		t.Error("a class without our finalizer is not ours to clean up after")
	}
}

func TestFM_A15_Tags(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 47 {
		many[strings.Repeat("x", i+1)] = ""
	}
	for name, tc := range map[string]struct {
		tags map[string]string
		want string
	}{
		"ordinary":      {map[string]string{"Name": "x", "Team": ""}, ""},
		"no key":        {map[string]string{"": "x"}, "without a key"},
		"cluster name":  {map[string]string{"eks:eks-cluster-name": "x"}, "set by the controller"},
		"pool":          {map[string]string{"karpenter.sh/nodepool": "x"}, "set by the controller"},
		"claim":         {map[string]string{"karpenter.sh/nodeclaim": "x"}, "set by the controller"},
		"class":         {map[string]string{"karpenter.k8s.aws/ec2nodeclass": "x"}, "set by the controller"},
		"of AWS":        {map[string]string{"AWS:x": "x"}, "reserved by AWS"},
		"long key":      {map[string]string{strings.Repeat("x", 129): "x"}, "too long"},
		"long value":    {map[string]string{"x": strings.Repeat("x", 257)}, "too long"},
		"longest value": {map[string]string{"x": strings.Repeat("ü", 256)}, ""},
		"too many":      {many, "keep 46 at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := condition.Find(nodeclass.Next(with(func(f *nodeclass.Facts) { f.Class.Spec.Tags = tc.tags })).Status.Conditions, "ValidationSucceeded")
			if (got.Reason == "TagValidationFailed") != (tc.want != "") || !strings.Contains(got.Message, tc.want) {
				t.Errorf("condition %+v, want %q", got, tc.want)
			}
		})
	}
}
