package adopt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

const (
	gpuLabel        = "example.com/gpu"
	driverZoneLabel = "csi.example.com/zone"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// newAdopter adopts instances of a cloud that says everything in the words of the port.
func newAdopter(t *testing.T, claims ...client.Object) *Adopter[cloud.Instance] {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return start }
	return &Adopter[cloud.Instance]{
		List: func(context.Context) ([]cloud.Instance, error) { return nil, errors.New("no list was requested") },
		Read: func(i cloud.Instance) cloud.Instance { return i },
		Labels: func(i cloud.Instance, of *catalog.InstanceType) map[string]string {
			return map[string]string{corev1.LabelInstanceTypeStable: of.Name, corev1.LabelTopologyZone: i.Zone, karpv1.LabelCapacityType: i.CapacityType}
		},
		Claims: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claims...).Build(), Ledger: NewLedger(now), Now: now,
		Name:  func(id string) string { return strings.TrimPrefix(id, "sky:///") },
		Words: reqs.CoreVocabulary().With(reqs.Vocabulary{WellKnownKeys: map[string]bool{gpuLabel: true}, Aliases: map[string]string{driverZoneLabel: corev1.LabelTopologyZone}}),
	}
}

func instanceTypes() []catalog.InstanceType {
	return []catalog.InstanceType{{Name: "m5.large"}, {Name: "m5.xlarge"}}
}

func newInstance(name string, launched time.Time, change ...func(*cloud.Instance)) cloud.Instance {
	i := cloud.Instance{ID: cloud.ID("sky:///" + name), Type: "m5.large", Zone: "eu-west-1a", CapacityType: "spot", Launched: launched, Pool: "default", Class: "default"}
	for _, c := range change {
		c(&i)
	}
	return i
}

func newClaim(name string, created time.Time, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{karpv1.LabelNodePool: "default"},
	}}
	claim.Spec.NodeClassRef.Name = "default"
	claim.Spec.Requirements = []karpv1.Requirement{
		{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"m5.large"}},
		{Key: karpv1.LabelCapacityType, Operator: "In", Values: []string{"spot", "on-demand"}},
		{Key: "team", Operator: "In", Values: []string{"a"}},
	}
	for _, c := range change {
		c(claim)
	}
	return claim
}

// FM A01, G1: two claims that look for their instance at the same time never get the same one, and what a claim has
// is assigned to no claim.
func TestFM_A01_EachOrphanIsGivenAwayOnce(t *testing.T) {
	t.Parallel()
	a := newAdopter(t, newClaim("has", start, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "sky:///i-3" }))
	lists := 0
	a.List = func(context.Context) ([]cloud.Instance, error) {
		lists++
		return []cloud.Instance{newInstance("i-1", start), newInstance("i-2", start), newInstance("i-3", start)}, nil
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	got := map[cloud.ID]int{}
	for _, name := range []string{"a", "b", "c", "d"} {
		wait.Go(func() {
			found, err := a.Adopt(t.Context(), newClaim(name, start), instanceTypes())
			if err != nil {
				t.Error(err)
			}
			if found != nil {
				mu.Lock()
				defer mu.Unlock()
				got[found.ID]++
			}
		})
	}
	wait.Wait()
	if len(got) != 2 || got["sky:///i-1"] != 1 || got["sky:///i-2"] != 1 || lists != 1 {
		t.Errorf("given away: %v, after %d lists", got, lists)
	}
}

// A claim is launched by one at a time; others wait, but not longer than they may, and other claims do not.
func TestTurnsAreTakenByClaim(t *testing.T) {
	t.Parallel()
	l := NewLedger(time.Now)
	done, err := l.Turn(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Turn(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Turn(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a turn that is taken: %v", err)
	}
	next := make(chan struct{})
	go func() {
		defer close(next)
		if done, err := l.Turn(t.Context(), "a"); err != nil {
			t.Error(err)
		} else {
			done()
		}
	}()
	done()
	<-next
	if len(l.turns) != 0 {
		t.Errorf("%d turns are left", len(l.turns))
	}
}

// FM A01: without a list nothing is known, which is an error and not "there is none".
func TestFM_A01_WithoutAListNothingIsKnown(t *testing.T) {
	t.Parallel()
	if found, err := newAdopter(t).Adopt(t.Context(), newClaim("a", start), instanceTypes()); err == nil {
		t.Errorf("found %v", found)
	}
}

func TestOrphanFor(t *testing.T) {
	t.Parallel()
	created := start.Add(-time.Minute)
	claim := newClaim("a", created)
	for name, tc := range map[string]struct {
		list []cloud.Instance
		want string
	}{
		"nothing there":                       {},
		"the one that fits":                   {[]cloud.Instance{newInstance("i-1", start)}, "i-1"},
		"launched by a clock that is behind":  {[]cloud.Instance{newInstance("i-1", created.Add(-5*time.Second))}, "i-1"},
		"older than the claim":                {list: []cloud.Instance{newInstance("i-1", created.Add(-6*time.Second))}},
		"of another pool":                     {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Pool = "other" })}},
		"of another class":                    {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Class = "other" })}},
		"of a type that is not allowed":       {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Type = "m5.xlarge" })}},
		"of a type that is not known":         {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Type = "x9.odd" })}},
		"of a capacity type not allowed":      {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.CapacityType = "reserved" })}},
		"on its way out":                      {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Terminating = true })}},
		"stopped":                             {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Stopped = true })}},
		"tagged with another claim":           {list: []cloud.Instance{newInstance("i-1", start, func(i *cloud.Instance) { i.Claim = "b" })}},
		"the oldest of several":               {[]cloud.Instance{newInstance("i-1", start.Add(time.Second)), newInstance("i-2", start)}, "i-2"},
		"the one that names the claim, first": {[]cloud.Instance{newInstance("i-1", start), newInstance("i-2", start.Add(time.Second), func(i *cloud.Instance) { i.Claim = "a" })}, "i-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAdopter(t)
			got := ""
			if chosen := a.choose(claim, a.candidates(tc.list), instanceTypes()); chosen != nil {
				got = chosen.name
			}
			if got != tc.want {
				t.Errorf("chose %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnOrphanMustMeetTheRequirements(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		r    karpv1.Requirement
		want bool
	}{
		"the zone":                           {karpv1.Requirement{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"eu-west-1a"}}, true},
		"another zone":                       {karpv1.Requirement{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"eu-west-1b"}}, false},
		"a GPU that the type has not":        {karpv1.Requirement{Key: gpuLabel, Operator: "Exists"}, false},
		"no GPU":                             {karpv1.Requirement{Key: gpuLabel, Operator: "DoesNotExist"}, true},
		"a label of the pool":                {karpv1.Requirement{Key: "team", Operator: "Exists"}, true},
		"something that cannot be read":      {karpv1.Requirement{Key: "team", Operator: "Odd"}, false},
		"the zone by the name of the driver": {karpv1.Requirement{Key: driverZoneLabel, Operator: "In", Values: []string{"eu-west-1b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim("a", start, func(c *karpv1.NodeClaim) { c.Spec.Requirements = []karpv1.Requirement{tc.r} })
			a := newAdopter(t)
			if got := a.allowed(claim, a.candidates([]cloud.Instance{newInstance("i-1", start)})[0], instanceTypes()); got != tc.want {
				t.Errorf("allowed = %v", got)
			}
		})
	}
}
