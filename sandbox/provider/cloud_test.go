package provider

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Tests that start a process are not parallel: the SDK reads its endpoint and credentials from the
// environment, as in a pod.

// classEnv is a cluster with a node class, and the cloud it runs in.
type classEnv struct {
	*launchEnv
	kube    client.Client
	classes *nodeclass.Classes
	hashes  *nodeclass.Hashes

	mu      sync.Mutex
	emitted []string
	texts   []string
}

// Emit notes an event.
func (e *classEnv) Emit(obj client.Object, events ...event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range events {
		e.emitted = append(e.emitted, string(one.Reason)+" "+obj.GetName())
		e.texts = append(e.texts, string(one.Reason)+": "+one.Text)
	}
}

// Flips notes nothing.
func (e *classEnv) Flips(client.Object, []condition.Flip) {}

func newEstate(t *testing.T, changes ...func(*awsv1.EC2NodeClass)) *classEnv {
	t.Helper()
	l := newAWSEnv(t)
	e := &classEnv{launchEnv: l.newLaunchEnv(), kube: l.newClient(l.newClass(changes...))}
	e.classes = &nodeclass.Classes{
		Client: e.kube, Resolve: e.discover, Profiles: l.newProfiles(), Launch: e.Launcher, Cluster: e.facts, Events: e, Now: l.currentTime,
		Settings: nodeclass.Settings{ReservedCapacity: true}, DropClass: e.discover.DropClass,
	}
	e.hashes = &nodeclass.Hashes{Client: e.kube, Cluster: e.facts}
	return e
}

// reconcile brings the class up to date, with responses that are not older than now.
func (e *classEnv) reconcile() *awsv1.EC2NodeClass {
	e.Helper()
	e.advanceClock(2 * time.Minute)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}
	if _, err := e.classes.Reconcile(e.Context(), request); err != nil {
		e.Fatalf("reconcile: %v", err)
	}
	if _, err := e.hashes.Reconcile(e.Context(), request); err != nil {
		e.Fatalf("hash: %v", err)
	}
	class := &awsv1.EC2NodeClass{}
	if err := e.kube.Get(e.Context(), request.NamespacedName, class); err != nil {
		e.Fatal(err)
	}
	return class
}

// editClass changes the spec of the class as a user does.
func (e *classEnv) editClass(change func(*awsv1.EC2NodeClass)) {
	e.Helper()
	class := &awsv1.EC2NodeClass{}
	if err := e.kube.Get(e.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		e.Fatal(err)
	}
	change(class)
	class.Generation++
	if err := e.kube.Update(e.Context(), class); err != nil {
		e.Fatal(err)
	}
}

// start starts a process of the controller.
func (e *classEnv) start() (*aws.Cloud, error) { return e.startWith() }

// startWith is start with other settings.
func (e *classEnv) startWith(changes ...func(*settings.AWS)) (*aws.Cloud, error) {
	e.setProcessEnvironment()
	set := settings.AWS{ClusterName: cluster, ClusterCABundle: caBundle, EKSControlPlane: true, VMMemoryOverheadPercent: 0.075, AMIRefreshInterval: time.Minute, SubnetRefreshInterval: time.Minute}
	for _, change := range changes {
		change(&set)
	}
	return aws.New(e.Context(), driver.Options{
		Config:  config.Config{Cloud: set, Gates: config.Gates{ReservedCapacity: true}},
		Version: "test", Kube: &rest.Config{Host: "https://127.0.0.1:6443"},
		Client: e.kube, Reader: e.kube, Events: e, Metrics: e.metrics, Now: e.currentTime,
	})
}

// setProcessEnvironment is how a process finds AWS.
func (e *classEnv) setProcessEnvironment() {
	e.Helper()
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": e.server.URL, "AWS_REGION": region, "AWS_ACCESS_KEY_ID": e.keys.Value.AccessKeyID, "AWS_SECRET_ACCESS_KEY": e.keys.Value.SecretAccessKey,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_SESSION_TOKEN": e.keys.Value.SessionToken, "AWS_PROFILE": "",
	} {
		e.Setenv(key, value)
	}
}

func (e *classEnv) startCloud() *aws.Cloud {
	e.Helper()
	c, err := e.start()
	if err != nil {
		e.Fatalf("start: %v", err)
	}
	return c
}

// ready is a cloud with a class that is.
func (e *classEnv) ready() *aws.Cloud {
	e.Helper()
	e.readyClass()
	return e.startCloud()
}

func (e *classEnv) readyClass() *awsv1.EC2NodeClass {
	e.Helper()
	class := e.reconcile()
	if !condition.True(class.Status.Conditions, karpv1.ConditionReady) {
		e.Fatalf("the class is not ready: %+v", class.Status.Conditions)
	}
	return class
}

// createClaim creates a claim.
func (e *classEnv) createClaim(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	e.Helper()
	c.CreationTimestamp = metav1.NewTime(e.currentTime())
	if err := e.kube.Create(e.Context(), c); err != nil {
		e.Fatal(err)
	}
	return c
}

// writeLaunchResult writes down what a claim got, as the controller does.
func (e *classEnv) writeLaunchResult(c *karpv1.NodeClaim, i cloud.Instance) *karpv1.NodeClaim {
	e.Helper()
	before := c.DeepCopy()
	c.Labels = maps.Clone(c.Labels)
	maps.Copy(c.Labels, i.Labels)
	c.Annotations = i.Annotations
	if err := e.kube.Patch(e.Context(), c, client.MergeFrom(before)); err != nil {
		e.Fatal(err)
	}
	before = c.DeepCopy()
	c.Status.ProviderID, c.Status.ImageID = string(i.ID), i.Image
	if err := e.kube.Status().Patch(e.Context(), c, client.MergeFrom(before)); err != nil {
		e.Fatal(err)
	}
	return c
}

func mustLaunch(t *testing.T, c cloud.Provider, claim *karpv1.NodeClaim) cloud.Instance {
	t.Helper()
	i, err := c.Launch(t.Context(), claim)
	if err != nil {
		t.Fatalf("launch of %s: %v", claim.Name, err)
	}
	return i
}

// A node class becomes ready, its pool has types, and an instance lives and dies through the provider.
func TestCloudFromClassToInstance(t *testing.T) {
	e := newEstate(t)
	c := e.ready()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
	if list, err := c.Types(t.Context(), pool); err != nil || len(list) != len(e.emu.Catalogue().Names()) {
		t.Errorf("%d types, %v; want %d", len(list), err, len(e.emu.Catalogue().Names()))
	}
	one := e.createClaim(claim("one", needsOf("m5.large,m6i.large", "spot").inZone(zoneB)))
	got := mustLaunch(t, c, one)
	for key, want := range map[string]string{
		corev1.LabelInstanceTypeStable: got.Type, corev1.LabelTopologyZone: zoneB, corev1.LabelTopologyRegion: region, karpv1.LabelCapacityType: "spot",
		awsv1.LabelZoneID: "euw1-az2", karpv1.LabelNodePool: "default", awsv1.LabelNodeClass: "default", awsv1.LabelInstanceTenancy: "default",
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	} {
		if got.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, got.Labels[key], want)
		}
	}
	for _, key := range []string{awsv1.AnnotationNodeClassHash, awsv1.AnnotationNodeClassHashVersion, awsv1.AnnotationInstanceProfileName} {
		if got.Annotations[key] == "" {
			t.Errorf("annotation %s is missing: %v", key, got.Annotations)
		}
	}
	if cpu := got.Capacity[corev1.ResourceCPU]; cpu.String() != "2" || len(got.Allocatable) == 0 {
		t.Errorf("capacity %v, allocatable %v", got.Capacity, got.Allocatable)
	}
	// A02: the status could not be written; called again it is the same instance.
	if again := mustLaunch(t, c, one); again.ID != got.ID {
		t.Errorf("called again: %s, want %s", again.ID, got.ID)
	}
	if n := e.countFleetCalls(); n != 1 {
		t.Errorf("%d fleets, want one", n)
	}
	e.writeLaunchResult(one, got)
	e.advanceClock(10 * time.Second)
	if found, err := c.Find(t.Context(), got.ID); err != nil || found.Pool != "default" || found.Type != got.Type {
		t.Errorf("find: %+v %v", found, err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != got.ID {
		t.Errorf("list: %+v %v", list, err)
	}
	if err := c.Terminate(t.Context(), got.ID); err != nil {
		t.Errorf("terminate: %v", err)
	}
	if found, err := c.Find(t.Context(), got.ID); err != nil || !found.Terminating {
		t.Errorf("find while it ends: %+v %v", found, err)
	}
	e.advanceClock(time.Minute)
	if err := c.Terminate(t.Context(), got.ID); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("terminate once it is gone: %v, want NotFound", err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %+v %v, want nothing", list, err)
	}
}

// What changes around a class makes its nodes drift, each with its reason; what cannot be found out does
// not (E13, E15).
func TestCloudDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*classEnv)
		want   reason.Code
	}{
		"nothing changed": {func(*classEnv) {}, ""},
		"a new image is recommended": {func(e *classEnv) {
			e.putControl("images", `[{"id":"ami-next","created":"2029-12-31T00:00:00Z"}]`)
			e.putControl("parameters", `{"`+al2023+`":"ami-next"}`)
			e.advanceClock(25 * time.Hour)
		}, reason.AMIDrift},
		"another security group is selected": {func(e *classEnv) {
			e.putControl("groups", `[{"id":"sg-more","tags":{"karpenter.sh/discovery":"`+cluster+`"}}]`)
		}, reason.SecurityGroupDrift},
		"the subnet is not selected any more": {func(e *classEnv) {
			e.putControl("subnets", `[{"id":"`+e.subnet(zoneA)+`","tags":{"Name":"`+cluster+`-private-`+zoneA+`","karpenter.sh/discovery":"no"}}]`)
		}, reason.SubnetDrift},
		"the user data changed": {func(e *classEnv) {
			e.editClass(func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("#!/bin/bash\necho hello") })
		}, reason.NodeClassDrift},
		"E15: no subnet is selected any more": {func(e *classEnv) {
			for _, zone := range []string{zoneA, zoneB, zoneC} {
				e.putControl("subnets", `[{"id":"`+e.subnet(zone)+`","tags":{"Name":"`+cluster+`-private-`+zone+`","karpenter.sh/discovery":"no"}}]`)
			}
		}, ""},
		"E15: no security group is selected any more": {func(e *classEnv) {
			for _, id := range e.securityGroupIDs() {
				e.putControl("groups", `[{"id":"`+id+`","tags":{"karpenter.sh/discovery":"no"}}]`)
			}
		}, ""},
		"E13: parameters cannot be read": {func(e *classEnv) {
			e.putControl("parameters", `{"`+al2023+`":"ami-next"}`)
			e.denyAction("ssm:GetParameter")
			e.advanceClock(25 * time.Hour)
		}, ""},
		"E13: images cannot be read": {func(e *classEnv) { e.denyAction("ec2:DescribeImages") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			c := e.ready()
			one := e.createClaim(claim("one", needsOf("m5.large", "on-demand").inZone(zoneA)))
			e.writeLaunchResult(one, mustLaunch(t, c, one))
			e.advanceClock(time.Minute)
			tc.change(e)
			e.reconcileAnyhow()
			got, err := c.Drift(t.Context(), one)
			if err != nil || got.Code != tc.want {
				t.Errorf("drift: %q %v, want %q", got.Code, err, tc.want)
			}
		})
	}
}

// reconcileAnyhow is reconcile where a failure is part of the test.
func (e *classEnv) reconcileAnyhow() {
	e.Helper()
	e.advanceClock(2 * time.Minute)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}
	_, _ = e.classes.Reconcile(e.Context(), request)
	if _, err := e.hashes.Reconcile(e.Context(), request); err != nil {
		e.Fatalf("hash: %v", err)
	}
}

// A01: a process that dies between the response of EC2 and the status of the claim leaves an orphan, which
// the next process takes over: one instance stays per claim.
func TestFM_A01_CloudAdoptsWhatAnEarlierProcessBought(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*classEnv)
	}{
		"EC2 shows the instances":                          {func(*classEnv) {}},
		"EC2 does not show them yet, the token finds them": {func(e *classEnv) { e.putControl("lag", `{"instances":"60s"}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			c := e.ready()
			tc.before(e)
			var claims []*karpv1.NodeClaim
			bought := map[cloud.ID]bool{}
			for n := range 3 {
				one := e.createClaim(claim(fmt.Sprintf("claim-%d", n), needsOf("m5.large,m6i.large", "spot,on-demand")))
				claims = append(claims, one)
				bought[mustLaunch(t, c, one).ID] = true
			}
			e.advanceClock(5 * time.Second)
			c = e.startCloud() // the first one died before it wrote anything down
			got := map[cloud.ID]bool{}
			for _, one := range claims {
				got[mustLaunch(t, c, one).ID] = true
			}
			if diff := cmp.Diff(bought, got); diff != "" {
				t.Errorf("instances (-launched +found):\n%s", diff)
			}
			if n := len(e.liveInstances()); n != len(claims) {
				t.Errorf("%d instances for %d claims", n, len(claims))
			}
		})
	}
}

// Orphans of another pool, or of types that the claim does not allow, are not taken over.
func TestFM_A01_CloudDoesNotAdoptWhatDoesNotFit(t *testing.T) {
	e := newEstate(t)
	e.ready()
	one := e.createClaim(claim("one", needsOf("m5.xlarge", "on-demand")))
	other := ownedTags()
	other["karpenter.sh/nodepool"] = "other"
	e.launchInstances(1, onDemand, ownedTags()) // an m5.large
	e.launchInstances(1, onDemand, other)
	e.advanceClock(5 * time.Second)
	got := mustLaunch(t, e.startCloud(), one)
	if i := e.instanceByID(inventory.InstanceID(string(got.ID))); i.Type != "m5.xlarge" || len(e.liveInstances()) != 3 {
		t.Errorf("got %s of %d instances, want an m5.xlarge of its own", i.Type, len(e.liveInstances()))
	}
}

// A08, A16, A17: a class that is gone, not ready, or newer than its status is not launched with.
func TestFM_A08_A16_A17_CloudDoesNotLaunchWithABadClass(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*classEnv)
		kind   cloud.Kind
	}{
		"it is gone": {func(e *classEnv) {
			e.editClass(func(c *awsv1.EC2NodeClass) { c.Finalizers = nil })
			if err := e.kube.Delete(e.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}); err != nil {
				e.Fatal(err)
			}
		}, cloud.NoCapacity},
		"its status lags": {func(e *classEnv) { e.editClass(func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("echo") }) }, cloud.NotReady},
		"its subnets are gone": {func(e *classEnv) {
			e.editClass(func(c *awsv1.EC2NodeClass) {
				c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-gone"}}
			})
			e.reconcileAnyhow()
		}, cloud.NotReady},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			c := e.ready()
			tc.change(e)
			if _, err := c.Launch(t.Context(), e.createClaim(claim("one", needsOf("m5.large", "on-demand")))); !cloud.Is(err, tc.kind) {
				t.Errorf("launch: %v, want kind %d", err, tc.kind)
			}
			if n := e.countFleetCalls(); n != 0 {
				t.Errorf("%d fleets", n)
			}
		})
	}
}

// E16: a start that cannot work says what to change.
func TestFM_E16_CloudThatCannotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*classEnv)
		says  string
	}{
		"EC2 is denied":             {func(e *classEnv) { e.denyAction("ec2:DescribeInstanceTypes") }, "policies"},
		"the cluster is not found":  {func(e *classEnv) { e.denyAction("eks:DescribeCluster") }, "cluster-endpoint"},
		"no instance type is known": {func(e *classEnv) { e.denyAction("ec2:DescribeInstanceTypeOfferings") }, "instance type"},
		"EC2 fails": {func(e *classEnv) {
			e.injectFault(awsemu.Fault{Action: "ec2:DescribeInstanceTypes", Code: "InvalidParameterValue", Status: 400})
		}, "EC2 in " + region},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			tc.spoil(e)
			if _, err := e.start(); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("start: %v, want a word about %q", err, tc.says)
			}
		})
	}
}

// Every call is allowed by the policies, and none is sent twice.
func TestCloudIsAllowedWhatItDoes(t *testing.T) {
	e := newEstate(t)
	c := e.ready()
	one := e.createClaim(claim("one", needsOf("m5.large", "spot,on-demand")))
	got := mustLaunch(t, c, one)
	e.writeLaunchResult(one, got)
	e.advanceClock(10 * time.Second)
	if _, err := c.Drift(t.Context(), one); err != nil {
		t.Error(err)
	}
	if err := c.Terminate(t.Context(), got.ID); err != nil {
		t.Error(err)
	}
	for _, call := range e.callsOf("", "") {
		if strings.Contains(call.Code, "Denied") || strings.Contains(call.Code, "Unauthorized") {
			t.Errorf("%s:%s was refused: %s", call.Service, call.Action, call.Code)
		}
		if !strings.HasPrefix(call.Attempt, "attempt=1") {
			t.Errorf("%s:%s was repeated: %s", call.Service, call.Action, call.Attempt)
		}
	}
	if n := e.countCalls(wire.EC2, "RunInstances"); n == 0 {
		t.Error("the class was not tried with a dry run")
	}
}
