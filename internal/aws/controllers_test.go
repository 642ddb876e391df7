package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

type tags struct {
	calls []string
	err   error
}

func (f *tags) CreateTags(_ context.Context, in *ec2.CreateTagsInput, _ ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error) {
	var text []string
	for _, tag := range in.Tags {
		text = append(text, *tag.Key+"="+*tag.Value)
	}
	f.calls = append(f.calls, strings.Join(in.Resources, ",")+" "+strings.Join(text, " "))
	return &ec2.CreateTagsOutput{}, f.err
}

func code(c string) error { return &smithy.GenericAPIError{Code: c, Message: "text"} }

func joined(c *karpv1.NodeClaim) { withInstance("i-1")(c); c.Status.NodeName = "node-1" }

func TestTagging(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim    *karpv1.NodeClaim
		instance []func(*inventory.Instance)
		gone     bool
		shifted  bool
		err      error
		calls    []string
		done     bool
		after    time.Duration
		fails    bool
	}{
		"a node that joined":             {claim: newClaim("a", start, joined), calls: []string{"i-1 Name=node-1 karpenter.sh/nodeclaim=a"}, done: true},
		"E07 the cluster tag is missing": {claim: newClaim("a", start, joined), instance: []func(*inventory.Instance){func(i *inventory.Instance) { delete(i.Tags, inventory.TagCluster) }}, calls: []string{"i-1 Name=node-1 eks:eks-cluster-name=sandbox karpenter.sh/nodeclaim=a"}, done: true},
		"the user's name stays":          {claim: newClaim("a", start, joined), instance: []func(*inventory.Instance){tagged("Name", "mine")}, calls: []string{"i-1 karpenter.sh/nodeclaim=a"}, done: true},
		"everything is there":            {claim: newClaim("a", start, joined), instance: []func(*inventory.Instance){tagged("Name", "mine"), tagged(inventory.TagNodeClaim, "a")}, done: true},
		"the node has not joined":        {claim: newClaim("a", start, withInstance("i-1"))},
		"it was done before": {claim: newClaim("a", start, joined, func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{awsv1.AnnotationTagged: "true", awsv1.AnnotationClusterNameTagged: "true"}
		}), done: true},
		"only one annotation is there": {claim: newClaim("a", start, joined, func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{awsv1.AnnotationTagged: "true"} }), calls: []string{"i-1 Name=node-1 karpenter.sh/nodeclaim=a"}, done: true},
		"the claim is going": {claim: newClaim("a", start, joined, func(c *karpv1.NodeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: start}, []string{"x"}
		})},
		"the instance is gone":         {claim: newClaim("a", start, joined), gone: true},
		"E19 its zone is shifted away": {claim: newClaim("a", start, joined), shifted: true, fails: true},
		"E18 tagging is denied":        {claim: newClaim("a", start, joined), err: code("UnauthorizedOperation"), calls: []string{"i-1 Name=node-1 karpenter.sh/nodeclaim=a"}, after: 10 * time.Minute},
		"E08 tagging is throttled":     {claim: newClaim("a", start, joined), err: code("RequestLimitExceeded"), calls: []string{"i-1 Name=node-1 karpenter.sh/nodeclaim=a"}, fails: true},
		"the instance went just now":   {claim: newClaim("a", start, joined), err: code("InvalidInstanceID.NotFound"), calls: []string{"i-1 Name=node-1 karpenter.sh/nodeclaim=a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, api := newWorld(t, tc.claim), &tags{err: tc.err}
			if !tc.gone {
				w.instances["i-1"] = newInstance("i-1", start, tc.instance...)
			}
			tagger := &tagger{client: w.kube, ec2: api, inventory: w, shifted: func(string) bool { return tc.shifted }, cluster: "sandbox", now: w.clock}
			got, err := tagger.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
			if (err != nil) != tc.fails || got.RequeueAfter != tc.after {
				t.Errorf("%v, %v", got, err)
			}
			if diff := cmp.Diff(tc.calls, api.calls); diff != "" {
				t.Error(diff)
			}
			claim := &karpv1.NodeClaim{}
			if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "a"}, claim); err != nil {
				t.Fatal(err)
			}
			if done := claim.Annotations[awsv1.AnnotationTagged] == "true" && claim.Annotations[awsv1.AnnotationClusterNameTagged] == "true"; done != tc.done {
				t.Errorf("annotations %v", claim.Annotations)
			}
		})
	}
}

// E18: however often a claim changes, a denial is not requested again at once.
func TestFM_E18_ADenialIsCachedForAWhile(t *testing.T) {
	t.Parallel()
	w, api := newWorld(t, newClaim("a", start, joined)), &tags{err: code("UnauthorizedOperation")}
	w.instances["i-1"] = newInstance("i-1", start)
	tagger := &tagger{client: w.kube, ec2: api, inventory: w, shifted: func(string) bool { return false }, cluster: "sandbox", now: w.clock}
	for range 5 {
		w.now = w.now.Add(time.Minute)
		if got, err := tagger.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err != nil || got.RequeueAfter <= 0 {
			t.Fatal(got, err)
		}
	}
	if len(api.calls) != 1 {
		t.Errorf("%d calls", len(api.calls))
	}
	w.now, api.err = w.now.Add(10*time.Minute), nil
	if got, err := tagger.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err != nil || got.RequeueAfter != 0 || len(api.calls) != 2 {
		t.Error(got, err, api.calls)
	}
}

func TestOneTagCallASecond(t *testing.T) {
	t.Parallel()
	w, api := newWorld(t, newClaim("a", start, joined), newClaim("b", start, joined), newClaim("c", start, joined)), &tags{}
	w.instances["i-1"] = newInstance("i-1", start)
	tagger := &tagger{client: w.kube, ec2: api, inventory: w, shifted: func(string) bool { return false }, cluster: "sandbox", now: w.clock}
	reconcile := func(name string) time.Duration {
		got, err := tagger.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		return got.RequeueAfter
	}
	if reconcile("a") != 0 || len(api.calls) != 1 {
		t.Fatal(api.calls)
	}
	w.now = w.now.Add(300 * time.Millisecond)
	if wait := reconcile("b"); wait != 700*time.Millisecond || len(api.calls) != 1 {
		t.Errorf("wait %v, %v", wait, api.calls)
	}
	if wait := reconcile("c"); wait != 1700*time.Millisecond {
		t.Errorf("c comes back after %v, with b", wait)
	}
	w.now = w.now.Add(700 * time.Millisecond)
	if reconcile("c") != time.Second || reconcile("b") != 0 || len(api.calls) != 2 {
		t.Error(api.calls)
	}
}

func inReservation(id, kind string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Labels[karpv1.LabelCapacityType] = karpv1.CapacityTypeReserved
		c.Labels[awsv1.LabelCapacityReservationID], c.Labels[awsv1.LabelCapacityReservationType], c.Labels[awsv1.LabelCapacityReservationInterrupt] = id, kind, "false"
	}
}

func TestCapacityBlocksAreLeftInTime(t *testing.T) {
	t.Parallel()
	class := newClass(func(c *awsv1.EC2NodeClass) {
		for id, end := range map[string]time.Duration{"cr-soon": 40 * time.Minute, "cr-later": 41 * time.Minute, "cr-over": -time.Minute} {
			c.Status.CapacityReservations = append(c.Status.CapacityReservations, awsv1.CapacityReservation{ID: id, ReservationType: "capacity-block", EndTime: &metav1.Time{Time: start.Add(end)}})
		}
		c.Status.CapacityReservations = append(c.Status.CapacityReservations, awsv1.CapacityReservation{ID: "cr-plain", ReservationType: "default", EndTime: &metav1.Time{Time: start}})
	})
	w := newWorld(t, class,
		newClaim("soon", start, withInstance("i-soon"), inReservation("cr-soon", "capacity-block")), newClaim("later", start, inReservation("cr-later", "capacity-block")),
		newClaim("over", start, inReservation("cr-over", "capacity-block")), newClaim("unknown", start, inReservation("cr-odd", "capacity-block")),
		newClaim("plain", start, inReservation("cr-plain", "default")), newClaim("free", start), newNode("node-soon", "i-soon"))
	r := &reservations{
		client: w.kube, directory: directory.Cache{Reader: w.kube}, inventory: w, now: w.clock,
		remover: execute.Remover{Client: w.kube, Events: w, Metrics: w.metrics, PodsToMove: func(context.Context, string) int { return 3 }},
	}
	if err := r.deleteExpiringBlocks(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.emitted)
	if diff := cmp.Diff([]string{"DisruptionTerminating node-soon", "DisruptionTerminating over", "DisruptionTerminating soon"}, w.emitted); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"reserved  default capacity_block_expired graceful": 2}, w.series(t, "karpenter_nodeclaims_disrupted_total")); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"reserved  default capacity_block_expired graceful": 3}, w.series(t, "karpenter_pods_disruption_initiated_total")); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	left := &karpv1.NodeClaimList{}
	if err := w.kube.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range left.Items {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"free", "later", "plain", "unknown"}, names); diff != "" {
		t.Error(diff)
	}
}

// A claim that is not what was seen, or another one of its name, is left to the next round and not counted.
func TestCapacityBlocksAreLeftByWhoIsMeant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var requested client.Preconditions
	lost := interceptor.NewClient(w.kube.(client.WithWatch), interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			requested = client.Preconditions(*(&client.DeleteOptions{}).ApplyOptions(opts).Preconditions)
			return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("it is another"))
		},
	})
	r := &reservations{client: lost, directory: directory.Cache{Reader: w.kube}, inventory: w, remover: execute.Remover{Client: lost, Events: w, Metrics: w.metrics}, now: w.clock}
	claim := newClaim("soon", start, inReservation("cr-soon", "capacity-block"), func(c *karpv1.NodeClaim) { c.UID, c.ResourceVersion = "seen", "7" })
	if err := r.deleteExpiring(t.Context(), claim, start); err != nil || len(w.emitted) != 0 || len(w.series(t, "karpenter_nodeclaims_disrupted_total")) != 0 {
		t.Errorf("error %v, events %v", err, w.emitted)
	}
	if *requested.UID != "seen" || *requested.ResourceVersion != "7" {
		t.Errorf("it was deleted with %+v", requested)
	}
}

// F09: a reservation that ends leaves its nodes on demand; nothing is deleted.
func TestFM_F09_InstancesThatLeftTheirReservationAreRelabelled(t *testing.T) {
	t.Parallel()
	node := newNode("node-1", "i-left")
	node.Labels = map[string]string{karpv1.LabelCapacityType: "reserved", awsv1.LabelCapacityReservationID: "cr-1", "keep": "me"}
	w := newWorld(t, node,
		newClaim("left", start, withInstance("i-left"), inReservation("cr-1", "default")), newClaim("in", start, withInstance("i-in"), inReservation("cr-1", "default")),
		newClaim("unseen", start, withInstance("i-unseen"), inReservation("cr-1", "default")), newClaim("starting", start, withInstance("i-starting"), inReservation("cr-1", "default")))
	w.instances["i-left"] = newInstance("i-left", start)
	w.instances["i-in"] = newInstance("i-in", start, func(i *inventory.Instance) { i.Reservation = "cr-1" })
	w.instances["i-starting"] = newInstance("i-starting", start, func(i *inventory.Instance) { i.State = inventory.StatePending })
	r := &reservations{client: w.kube, directory: directory.Cache{Reader: w.kube}, inventory: w, now: w.clock}
	if err := r.relabel(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"left": "on-demand", "in": "reserved", "unseen": "reserved", "starting": "reserved"} {
		claim := &karpv1.NodeClaim{}
		if err := w.kube.Get(t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
			t.Fatal(err)
		}
		_, has := claim.Labels[awsv1.LabelCapacityReservationID]
		if claim.Labels[karpv1.LabelCapacityType] != want || has != (want == "reserved") {
			t.Errorf("%s: %v", name, claim.Labels)
		}
	}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "node-1"}, node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{karpv1.LabelCapacityType: "on-demand", "keep": "me"}, node.Labels); diff != "" {
		t.Error(diff)
	}
	w.listError = &cloud.Error{Kind: cloud.Throttled}
	if err := r.relabel(t.Context()); err == nil {
		t.Error("a list that fails is no news")
	}
}

// LC-09: a node of a partition placement group waits for its partition.
func TestLC09_ThePartitionGate(t *testing.T) {
	t.Parallel()
	grouped := func(c *karpv1.NodeClaim) { withInstance("i-1")(c); c.Labels[awsv1.LabelPlacementGroupID] = "pg-1" }
	for name, tc := range map[string]struct {
		claim    *karpv1.NodeClaim
		strategy string
		instance string // partition
		missing  bool
		fails    error
		labels   map[string]string
		wait     time.Duration
	}{
		"no group":                      {claim: newClaim("a", start, withInstance("i-1")), strategy: "partition"},
		"a group without partitions":    {claim: newClaim("a", start, grouped), strategy: "cluster"},
		"the partition is on the claim": {claim: newClaim("a", start, grouped, func(c *karpv1.NodeClaim) { c.Labels[awsv1.LabelPlacementGroupPartition] = "1" }), strategy: "partition"},
		"EC2 has chosen":                {claim: newClaim("a", start, grouped), strategy: "partition", instance: "3", labels: map[string]string{awsv1.LabelPlacementGroupPartition: "3"}},
		"EC2 has not chosen yet":        {claim: newClaim("a", start, grouped), strategy: "partition", wait: 5 * time.Second},
		"the instance is gone":          {claim: newClaim("a", start, grouped), strategy: "partition", missing: true, wait: 5 * time.Second},
		"EC2 does not respond":          {claim: newClaim("a", start, grouped), strategy: "partition", fails: &cloud.Error{Kind: cloud.Throttled}, wait: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.findError = tc.fails
			if !tc.missing {
				w.instances["i-1"] = newInstance("i-1", start, func(i *inventory.Instance) { i.Partition = tc.instance })
			}
			g := &partitionGate{inventory: w, strategy: func(context.Context, *karpv1.NodeClaim) (string, error) { return tc.strategy, nil }}
			labels, wait, err := g.Open(t.Context(), tc.claim)
			if diff := cmp.Diff(tc.labels, labels); diff != "" || wait != tc.wait || (err != nil) != (tc.fails != nil) {
				t.Errorf("%s, wait %v, %v", diff, wait, err)
			}
		})
	}
}

func TestTrust_A15_SizesAreLearntFromTheCurrentImageOnly(t *testing.T) {
	t.Parallel()
	class := newClass(func(c *awsv1.EC2NodeClass) { c.Status.AMIs = []awsv1.AMI{{ID: "ami-1"}} })
	for name, tc := range map[string]struct {
		image, memory, instanceType string
		want                        string
	}{
		"a node of the current image": {"ami-1", "7800Mi", "m5.large", "m5.large 7800Mi 18Gi"},
		"a node of an older image":    {"ami-0", "7800Mi", "m5.large", ""},
		"a node that reports nothing": {"ami-1", "0", "m5.large", ""},
		"a type that is not offered":  {"ami-1", "7800Mi", "x9.odd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := newNode("node-1", "i-1")
			node.Labels = map[string]string{corev1.LabelInstanceTypeStable: tc.instanceType}
			node.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: quantity(tc.memory), corev1.ResourceEphemeralStorage: quantity("18Gi")}
			w := newWorld(t, node, newClaim("a", start, withInstance("i-1"), func(c *karpv1.NodeClaim) { c.Status.ImageID = tc.image }))
			got := ""
			o := &observer{
				client: w.kube, directory: directory.Cache{Reader: w.kube}, types: w,
				class:        func(context.Context, karpv1.NodeClassReference) (*awsv1.EC2NodeClass, error) { return class, nil },
				learn:        func(name string, _ *awsv1.EC2NodeClass, memory resource.Quantity) { got = name + " " + memory.String() },
				learnStorage: func(_ string, _ *awsv1.EC2NodeClass, storage resource.Quantity) { got += " " + storage.String() },
			}
			if _, err := o.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}}); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("learnt %q, want %q", got, tc.want)
			}
		})
	}
}
