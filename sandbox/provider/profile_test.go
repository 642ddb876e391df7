package provider

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func (l *awsEnv) newProfiles() *profile.Profiles {
	return profile.New(profile.Options{
		IAM: iam.NewFromConfig(l.sdk), Cluster: cluster, Region: region, Now: l.currentTime,
		NewID: func() string { return fmt.Sprint(l.ids.Add(1)) },
	})
}

// existingProfiles are the profiles below the path of the cluster, with their roles.
func (l *awsEnv) existingProfiles() map[string]string {
	l.Helper()
	out, err := iam.NewFromConfig(l.person).ListInstanceProfiles(l.Context(), &iam.ListInstanceProfilesInput{PathPrefix: new("/karpenter/")})
	if err != nil {
		l.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range out.InstanceProfiles {
		found[*p.InstanceProfileName] = roleName(p)
	}
	return found
}

func roleName(p iamtypes.InstanceProfile) string {
	if len(p.Roles) == 0 {
		return ""
	}
	return *p.Roles[0].RoleName
}

// newClient is a cluster with these objects.
func (l *awsEnv) newClient(list ...client.Object) client.Client {
	l.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, karpv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			l.Fatal(err)
		}
	}
	const byInstance = "dovetail.instance-id" // the index that the controllers make
	ids := func(provider string) []string { return []string{inventory.InstanceID(provider)} }
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(list...).WithStatusSubresource(&awsv1.EC2NodeClass{}, &karpv1.NodeClaim{}).
		WithIndex(&karpv1.NodeClaim{}, byInstance, func(o client.Object) []string {
			if claim, ok := o.(*karpv1.NodeClaim); ok {
				return ids(claim.Status.ProviderID)
			}
			return nil
		}).
		WithIndex(&corev1.Node{}, byInstance, func(o client.Object) []string {
			if node, ok := o.(*corev1.Node); ok {
				return ids(node.Spec.ProviderID)
			}
			return nil
		}).Build()
}

// A profile is made once for a role, with the path and the tags that the policies request.
func TestProfileIsMadeOnce(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	p, class := l.newProfiles(), l.newClass()
	name, err := p.Ensure(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Ensure(t.Context(), class) // the status could not be written
	if err != nil || again != name {
		t.Errorf("again: %q %v, want %q", again, err, name)
	}
	class.Status.InstanceProfile = name
	if again, err = p.Ensure(t.Context(), class); err != nil || again != name {
		t.Errorf("with status: %q %v, want %q", again, err, name)
	}
	if diff := cmp.Diff(map[string]string{name: nodeRole}, l.existingProfiles()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	if calls := l.countCalls(wire.IAM, "CreateInstanceProfile"); calls != 1 {
		t.Errorf("CreateInstanceProfile was called %d times, want once", calls)
	}
}

// Another role needs another profile: the old one stays for the instances that have it.
func TestAnotherRoleGetsAnotherProfile(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.mayPass("KarpenterNodeRole*")
	p, class := l.newProfiles(), l.newClass()
	first := l.mustEnsureProfile(p, class)
	class.Status.InstanceProfile, class.Spec.Role = first, "KarpenterNodeRole"
	second := l.mustEnsureProfile(p, class)
	if diff := cmp.Diff(map[string]string{first: nodeRole, second: "KarpenterNodeRole"}, l.existingProfiles()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

func (l *awsEnv) mustEnsureProfile(p *profile.Profiles, class *awsv1.EC2NodeClass) string {
	l.Helper()
	name, err := p.Ensure(l.Context(), class)
	if err != nil {
		l.Fatalf("ensure: %v", err)
	}
	return name
}

// A role that does not exist is named, leaves no profile behind and is not requested all the time.
func TestARoleThatDoesNotExist(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.mayPass("*")
	p, class := l.newProfiles(), l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.Role = "nobody" })
	for range 5 {
		_, err := p.Ensure(t.Context(), class)
		if !cloud.Is(err, cloud.Invalid) || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("ensure: %v, want an error that names the role", err)
		}
	}
	if left := l.existingProfiles(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if calls := l.countCalls(wire.IAM, "CreateInstanceProfile"); calls != 1 {
		t.Errorf("CreateInstanceProfile was called %d times within a minute, want once", calls)
	}
}

// L-11: a role that is the name of a profile is taken for one.
func TestARoleThatIsAProfile(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.mayPass("*")
	l.ensureProfile("handmade")
	class := l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.Role = "handmade" })
	if name := l.mustEnsureProfile(l.newProfiles(), class); name != "handmade" {
		t.Errorf("profile %q, want the one that exists", name)
	}
	if left := l.existingProfiles(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A deleted profile in the status is created again.
func TestAProfileThatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	class := l.newClass(func(c *awsv1.EC2NodeClass) { c.Status.InstanceProfile = cluster + "_gone" })
	name := l.mustEnsureProfile(l.newProfiles(), class)
	if diff := cmp.Diff(map[string]string{name: nodeRole}, l.existingProfiles()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

// IAM refuses: the error says so, names the action, and nothing is left behind.
func TestProfilesThatMayNotBeMade(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]string{
		"creation": "iam:CreateInstanceProfile", "adding the role": "iam:AddRoleToInstanceProfile", "passing the role": "iam:PassRole",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			l.denyAction(action)
			_, err := l.newProfiles().Ensure(t.Context(), l.newClass())
			if !cloud.Is(err, cloud.Denied) || !strings.Contains(err.Error(), action) {
				t.Errorf("ensure: %v, want it denied and %s named", err, action)
			}
			if left := l.existingProfiles(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A throttled or failing IAM is no reason to make a second profile (G3 in spirit).
func TestAProfileIsNotReplacedBecauseIAMFails(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	class := l.newClass()
	class.Status.InstanceProfile = l.mustEnsureProfile(l.newProfiles(), class)
	for name, spoil := range map[string]func(){
		"throttled": func() { l.throttleActions("iam:GetInstanceProfile") },
		"broken": func() {
			l.injectFault(awsemu.Fault{Action: "iam:GetInstanceProfile", Code: "ServiceFailure", Status: 500})
		},
	} {
		spoil()
		if _, err := l.newProfiles().Ensure(t.Context(), class); err == nil || cloud.Is(err, cloud.Invalid) {
			t.Errorf("%s: %v, want an error that passes", name, err)
		}
		l.remove("throttle")
		l.remove("faults")
	}
	if calls := l.countCalls(wire.IAM, "CreateInstanceProfile"); calls != 1 {
		t.Errorf("CreateInstanceProfile was called %d times, want once", calls)
	}
}

// The collector deletes what no class and no claim names, after an hour, and only below the path of
// this cluster.
func TestCollectedProfiles(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.ensureProfile("handmade")
	p := l.newProfiles()
	class := func(name string) *awsv1.EC2NodeClass {
		return l.newClass(func(c *awsv1.EC2NodeClass) { c.Name, c.UID = name, types.UID(name+"-uid") })
	}
	current, claimed, unused := class("current"), class("claimed"), class("unused")
	names := []string{l.mustEnsureProfile(p, current), l.mustEnsureProfile(p, claimed), l.mustEnsureProfile(p, unused)}
	current.Status.InstanceProfile = names[0]
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{awsv1.AnnotationInstanceProfileName: names[1]}}}
	objects := l.newClient(current, claim)
	collect := func(p *profile.Profiles) {
		t.Helper()
		if err := p.Collect(t.Context(), objects); err != nil {
			t.Errorf("collect: %v", err)
		}
	}
	l.advanceClock(59 * time.Minute)
	collect(p)
	collect(l.newProfiles()) // after a restart
	if got := l.existingProfiles(); len(got) != 3 {
		t.Errorf("after 59 minutes: %v, want all three", got)
	}
	l.advanceClock(2 * time.Minute)
	collect(p)
	if diff := cmp.Diff(map[string]string{names[0]: nodeRole, names[1]: nodeRole}, l.existingProfiles()); diff != "" {
		t.Errorf("after an hour (-want +got):\n%s", diff)
	}
	if _, err := iam.NewFromConfig(l.person).GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: new("handmade")}); err != nil {
		t.Errorf("the profile of another owner: %v", err)
	}
}

// A class that is deleted takes its profiles with it, those of others stay.
func TestProfilesOfADeletedClass(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	p, mine, other := l.newProfiles(), l.newClass(), l.newClass(func(c *awsv1.EC2NodeClass) { c.Name, c.UID = "other", "other-uid" })
	l.mustEnsureProfile(p, mine)
	kept := l.mustEnsureProfile(p, other)
	for range 2 {
		if err := p.Remove(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{kept: nodeRole}, l.existingProfiles()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}
