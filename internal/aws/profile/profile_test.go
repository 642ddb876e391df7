package profile_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// account is IAM in memory.
type account struct {
	roles    []string
	profiles map[string]iamtypes.InstanceProfile
	deny     string // calls that are denied
	calls    []string
}

func (a *account) call(name string) error {
	a.calls = append(a.calls, name)
	if a.deny != "" && strings.Contains(a.deny, name) {
		return &smithy.GenericAPIError{Code: "AccessDenied", Message: "not authorized to perform: iam:" + name}
	}
	return nil
}

func (a *account) find(name string) (iamtypes.InstanceProfile, error) {
	if p, found := a.profiles[name]; found {
		return p, nil
	}
	return iamtypes.InstanceProfile{}, &iamtypes.NoSuchEntityException{Message: new("Instance Profile " + name + " cannot be found.")}
}

func (a *account) GetInstanceProfile(_ context.Context, in *iam.GetInstanceProfileInput, _ ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error) {
	if err := a.call("GetInstanceProfile"); err != nil {
		return nil, err
	}
	p, err := a.find(*in.InstanceProfileName)
	return &iam.GetInstanceProfileOutput{InstanceProfile: &p}, err
}

func (a *account) ListInstanceProfiles(_ context.Context, in *iam.ListInstanceProfilesInput, _ ...func(*iam.Options)) (*iam.ListInstanceProfilesOutput, error) {
	if err := a.call("ListInstanceProfiles"); err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.profiles)) {
		if strings.HasPrefix(*a.profiles[name].Path, *in.PathPrefix) {
			names = append(names, name)
		}
	}
	from := 0 // pages of one, to see that all are read
	if in.Marker != nil {
		from, _ = strconv.Atoi(*in.Marker)
	}
	out := &iam.ListInstanceProfilesOutput{}
	if from < len(names) {
		out.InstanceProfiles = []iamtypes.InstanceProfile{a.profiles[names[from]]}
		out.IsTruncated, out.Marker = from+1 < len(names), new(strconv.Itoa(from+1))
	}
	return out, nil
}

func (a *account) CreateInstanceProfile(_ context.Context, in *iam.CreateInstanceProfileInput, _ ...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error) {
	if err := a.call("CreateInstanceProfile"); err != nil {
		return nil, err
	}
	a.profiles[*in.InstanceProfileName] = iamtypes.InstanceProfile{InstanceProfileName: in.InstanceProfileName, Path: in.Path, Tags: in.Tags}
	return &iam.CreateInstanceProfileOutput{}, nil
}

func (a *account) AddRoleToInstanceProfile(_ context.Context, in *iam.AddRoleToInstanceProfileInput, _ ...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error) {
	if err := a.call("AddRoleToInstanceProfile"); err != nil {
		return nil, err
	}
	if !slices.Contains(a.roles, *in.RoleName) {
		return nil, &iamtypes.NoSuchEntityException{Message: new("The role with name " + *in.RoleName + " cannot be found.")}
	}
	p := a.profiles[*in.InstanceProfileName]
	p.Roles = []iamtypes.Role{{RoleName: in.RoleName}}
	a.profiles[*in.InstanceProfileName] = p
	return &iam.AddRoleToInstanceProfileOutput{}, nil
}

func (a *account) RemoveRoleFromInstanceProfile(_ context.Context, in *iam.RemoveRoleFromInstanceProfileInput, _ ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error) {
	if err := a.call("RemoveRoleFromInstanceProfile"); err != nil {
		return nil, err
	}
	p, err := a.find(*in.InstanceProfileName)
	if err == nil {
		p.Roles = nil
		a.profiles[*in.InstanceProfileName] = p
	}
	return &iam.RemoveRoleFromInstanceProfileOutput{}, err
}

func (a *account) DeleteInstanceProfile(_ context.Context, in *iam.DeleteInstanceProfileInput, _ ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error) {
	if err := a.call("DeleteInstanceProfile"); err != nil {
		return nil, err
	}
	p, err := a.find(*in.InstanceProfileName)
	if len(p.Roles) > 0 {
		return nil, &iamtypes.DeleteConflictException{}
	}
	delete(a.profiles, *in.InstanceProfileName)
	return &iam.DeleteInstanceProfileOutput{}, err
}

// world is an account, a clock and the profiles that are tested.
type world struct {
	*account
	*profile.Profiles

	now time.Time
}

func newWorld(change ...func(*profile.Options)) *world {
	w := &world{account: &account{roles: []string{"nodes", "others"}, profiles: map[string]iamtypes.InstanceProfile{}}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	n := 0
	o := profile.Options{
		IAM: w.account, Cluster: "demo", Region: "eu-west-1", Now: func() time.Time { return w.now },
		NewID: func() string { n++; return strconv.Itoa(n) },
	}
	for _, apply := range change {
		apply(&o)
	}
	w.Profiles = profile.New(o)
	return w
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.profiles)) }

func (w *world) add(name, path, role string) {
	p := iamtypes.InstanceProfile{InstanceProfileName: &name, Path: &path}
	if role != "" {
		p.Roles = []iamtypes.Role{{RoleName: &role}}
	}
	w.profiles[name] = p
}

func class(role string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u1"},
		Spec:       awsv1.EC2NodeClassSpec{Role: role, Tags: map[string]string{"team": "a"}},
	}
}

func ensure(t *testing.T, w *world, nodes *awsv1.EC2NodeClass) string {
	t.Helper()
	name, err := w.Ensure(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProfileForARole(t *testing.T) {
	t.Parallel()
	w := newWorld()
	nodes := class("/team/path/nodes") // only the last part is the name
	name := ensure(t, w, nodes)
	number, found := strings.CutPrefix(name, "demo_")
	if _, err := strconv.ParseUint(number, 10, 64); err != nil || !found {
		t.Errorf("name %q", name)
	}
	made := w.profiles[name]
	if *made.Path != "/karpenter/eu-west-1/demo/u1/" || *made.Roles[0].RoleName != "nodes" {
		t.Errorf("path %s, roles %v", *made.Path, made.Roles)
	}
	tags := map[string]string{}
	for _, tag := range made.Tags {
		tags[*tag.Key] = *tag.Value
	}
	want := map[string]string{
		"team": "a", "kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo",
		"karpenter.k8s.aws/ec2nodeclass": "default", "topology.kubernetes.io/region": "eu-west-1",
	}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}

	// The status could not be written: the same profile again, for a minute.
	if again := ensure(t, w, nodes); again != name {
		t.Errorf("a second profile %s", again)
	}
	nodes.Status.InstanceProfile = name
	w.now = w.now.Add(14 * time.Minute)
	w.calls = nil
	if again := ensure(t, w, nodes); again != name || len(w.calls) > 0 {
		t.Errorf("profile %s after calls %v; it is known for 15 minutes", again, w.calls)
	}
	w.now = w.now.Add(2 * time.Minute)
	if again := ensure(t, w, nodes); again != name || len(w.names()) != 1 {
		t.Errorf("profile %s of %v", again, w.names())
	}
}

func TestProfileIsReplaced(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, *awsv1.EC2NodeClass){
		"another role":        func(_ *world, c *awsv1.EC2NodeClass) { c.Spec.Role = "others" },
		"the profile is gone": func(w *world, _ *awsv1.EC2NodeClass) { clear(w.profiles); w.now = w.now.Add(time.Hour) },
		"the profile has no role": func(w *world, c *awsv1.EC2NodeClass) {
			w.add(c.Status.InstanceProfile, "/", "")
			w.now = w.now.Add(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes := newWorld(), class("nodes")
			nodes.Status.InstanceProfile = ensure(t, w, nodes)
			change(w, nodes)
			next := ensure(t, w, nodes)
			if next == nodes.Status.InstanceProfile || *w.profiles[next].Roles[0].RoleName != nodes.Spec.Role {
				t.Errorf("profile %s, %v", next, w.names())
			}
		})
	}
}

func TestNamedProfileIsOnlyCopied(t *testing.T) {
	t.Parallel()
	w, nodes := newWorld(), class("")
	nodes.Spec.InstanceProfile = new("mine")
	if name := ensure(t, w, nodes); name != "mine" || len(w.calls) > 0 {
		t.Errorf("profile %s, calls %v", name, w.calls)
	}
}

// S-179: a role that does not exist is named, nothing is left behind, and IAM is left in peace for a minute.
func TestS_179_MissingRole(t *testing.T) {
	t.Parallel()
	w, nodes := newWorld(), class("nobody")
	for range 2 {
		_, err := w.Ensure(t.Context(), nodes)
		if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Reason != "RoleNotFound" || e.Kind != cloud.Invalid || !strings.Contains(e.Message, "IAM role nobody does not exist") {
			t.Fatalf("error %v", err)
		}
	}
	if len(w.names()) > 0 || strings.Count(strings.Join(w.calls, " "), "Create") != 1 {
		t.Errorf("profiles %v, calls %v", w.names(), w.calls)
	}
	w.now, w.roles = w.now.Add(time.Minute), []string{"nobody"}
	ensure(t, w, nodes)
}

// S-077, L-11: a role that is the name of a profile.
func TestS_077_ProfileGivenAsRole(t *testing.T) {
	t.Parallel()
	w, nodes := newWorld(), class("KarpenterNodeInstanceProfile")
	w.add("KarpenterNodeInstanceProfile", "/", "nodes")
	name := ensure(t, w, nodes)
	if name != "KarpenterNodeInstanceProfile" || len(w.names()) != 1 {
		t.Fatalf("profile %s of %v", name, w.names())
	}
	if profile.RoleIsProfile(nodes) {
		t.Error("known before the status says so")
	}
	nodes.Status.InstanceProfile = name
	w.calls, w.now = nil, w.now.Add(time.Hour)
	if again := ensure(t, w, nodes); again != name || !slices.Equal(w.calls, []string{"GetInstanceProfile"}) || !profile.RoleIsProfile(nodes) {
		t.Errorf("profile %s, calls %v", again, w.calls)
	}
	w = newWorld(func(o *profile.Options) { o.Strict = true })
	w.add("KarpenterNodeInstanceProfile", "/", "nodes")
	if _, err := w.Ensure(t.Context(), class("KarpenterNodeInstanceProfile")); err == nil {
		t.Error("strict compatibility takes a profile for a role")
	}
}

func TestDenialsAreNamed(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"GetInstanceProfile", "CreateInstanceProfile", "AddRoleToInstanceProfile"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w, nodes := newWorld(), class("nodes")
			w.deny = call
			if call == "GetInstanceProfile" {
				nodes.Status.InstanceProfile = "demo_1"
			}
			_, err := w.Ensure(t.Context(), nodes)
			if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Reason != "InstanceProfileUnauthorized" || e.Kind != cloud.Denied || !strings.Contains(e.Message, "iam:"+call) {
				t.Fatalf("error %v", err)
			}
			if len(w.names()) > 0 {
				t.Errorf("left behind: %v", w.names())
			}
		})
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	populate := func(w *world) {
		w.add("demo_1", "/karpenter/eu-west-1/demo/u1/", "nodes")
		w.add("demo_2", "/karpenter/eu-west-1/demo/u1/", "")
		w.add("demo_3", "/karpenter/eu-west-1/demo/u2/", "nodes")
		w.add("demo_8891960937105949750", "/", "nodes") // of an old release: FNV of eu-west-1default
	}
	for name, tc := range map[string]struct {
		change   func(*profile.Options)
		deny     string
		own      bool // the class names a profile
		want     int  // profiles that are left
		wantFail bool
	}{
		"those of the class and the legacy one": {want: 1},
		"nothing in an isolated VPC":            {change: func(o *profile.Options) { o.Isolated = true }, want: 4},
		"denied":                                {deny: "ListInstanceProfiles", want: 4, wantFail: true},
		"denied, but the class needs none":      {deny: "ListInstanceProfiles", own: true, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes := newWorld(), class("nodes")
			if tc.change != nil {
				w = newWorld(tc.change)
			}
			populate(w)
			w.deny = tc.deny
			if tc.own {
				nodes.Spec.Role, nodes.Spec.InstanceProfile = "", new("mine")
			}
			if err := w.Remove(t.Context(), nodes); (err != nil) != tc.wantFail {
				t.Fatal(err)
			}
			if len(w.names()) != tc.want {
				t.Errorf("left: %v", w.names())
			}
		})
	}
}

// EC2NodeClass 15: what a class or a claim uses, what is young or was just replaced, and what is not
// ours stays.
func TestCollect(t *testing.T) {
	t.Parallel()
	w := newWorld()
	nodes := class("nodes")
	replaced := ensure(t, w, nodes)
	nodes.Status.InstanceProfile = replaced
	nodes.Spec.Role = "others"
	fresh := ensure(t, w, nodes)
	ours := "/karpenter/eu-west-1/demo/u9/"
	w.add("demo_class", ours, "nodes")
	w.add("demo_claim", ours, "nodes")
	w.add("demo_unused", ours, "nodes")
	w.add("demo_young", ours, "nodes")
	young := w.profiles["demo_young"]
	young.CreateDate = new(w.now.Add(-59 * time.Minute))
	w.profiles["demo_young"] = young
	w.add("foreign", "/", "nodes")
	w.add("other", "/karpenter/eu-west-1/other/u1/", "nodes")

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{
		&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: awsv1.EC2NodeClassStatus{InstanceProfile: "demo_class"}},
		&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"karpenter.k8s.aws/instance-profile-name": "demo_claim"}}},
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	if err := w.Collect(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	want := []string{"demo_claim", "demo_class", "demo_young", "foreign", "other", replaced, fresh}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.names()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	w.now = w.now.Add(time.Hour)
	if err := w.Collect(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"demo_claim", "demo_class", "foreign", "other"}, w.names()); diff != "" {
		t.Errorf("profiles an hour later (-want +got):\n%s", diff)
	}
}
