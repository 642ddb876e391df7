package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
	"github.com/dovetail-sh/dovetail/internal/store"
)

// lot is a capacity reservation with everybody who counts its slots: EC2, our count between two looks at
// it, and memory.
type lot struct {
	now         time.Time
	size        int
	in          int // instances that EC2 has in it
	count       *offering.Reservations
	memory      *store.Store
	notify      func(obj client.Object, gone bool)
	types       []catalog.InstanceType // as they were requested last
	pendingCall *glance                // at EC2, under way
	claims      map[string]stage
	orders      int         // so far
	gone        []time.Time // when instances were last seen that are gone, which no caller knows yet
}

// glance is how many were free when EC2 was queried.
type glance struct {
	free int
	at   time.Time
}

type stage int

const (
	ordered   stage = iota
	launched        // EC2 has launched it, and the response is under way
	responded       // the response is here,
	written         // and in memory
)

func newLot(t *testing.T, size int) *lot {
	t.Helper()
	l := &lot{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), size: size, claims: map[string]stage{}}
	now := func() time.Time { return l.now }
	l.count = offering.NewReservations(now)
	l.memory = store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: resources.NewTable(), Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: now, ReservationLabel: awsv1.LabelCapacityReservationID, Wake: func(types.UID) {},
	})
	watch := informers{}
	if err := l.memory.Watch(t.Context(), watch); err != nil {
		t.Fatal(err)
	}
	l.notify = func(obj client.Object, gone bool) {
		if h := watch[fmt.Sprintf("%T", obj)]; gone {
			h.OnDelete(obj)
		} else {
			h.OnUpdate(nil, obj)
		}
	}
	l.notify(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpv1.NodePoolSpec{Template: karpv1.NodeClaimTemplate{
		Spec: karpv1.NodeClaimTemplateSpec{NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}},
	}}}, false)
	l.count.Set("cr-1", size, l.now)
	l.readTypes()
	return l
}

// informers hold the handlers of memory, by kind.
type informers map[string]toolscache.ResourceEventHandler

// GetInformer returns the watch of a kind.
func (i informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{in: i, kind: fmt.Sprintf("%T", obj)}, nil
}

type informer struct {
	cache.Informer
	in   informers
	kind string
}

// AddEventHandler stores a handler.
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.in[i.kind] = h
	return registration{}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced says that everything was listed.
func (registration) HasSynced() bool { return true }

// readTypes is what a loop does before it makes a snapshot.
func (l *lot) readTypes() {
	free, takers := l.count.Count("cr-1")
	l.types = []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{{
		Zone: "a", CapacityType: karpv1.CapacityTypeReserved, Available: true, Reservation: "cr-1", Remaining: free, Takers: takers,
		Labels: map[string]string{awsv1.LabelCapacityReservationID: "cr-1"},
	}}}}
}

// left is how many slots the next plan finds.
func (l *lot) left() int {
	return l.memory.Snapshot(map[string][]catalog.InstanceType{"general": l.types}).Pools[0].Types[0].Offerings[0].Remaining
}

func (l *lot) claim(name string) *karpv1.NodeClaim {
	in := func(key string, values ...string) karpv1.Requirement {
		return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.LabelNodePool: "general"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			Requirements: []karpv1.Requirement{in(karpv1.LabelCapacityType, karpv1.CapacityTypeReserved), in(awsv1.LabelCapacityReservationID, "cr-1")},
		},
	}
	if l.claims[name] == written {
		c.Labels[awsv1.LabelCapacityReservationID], c.Status.ProviderID = "cr-1", "aws:///a/"+name
	}
	return c
}

// steps are what can happen, each by itself and at any time.
func (l *lot) steps(r *rapid.T) map[string]func() {
	move := func(from stage, do func(name string)) func() {
		return func() {
			var able []string
			for _, name := range slices.Sorted(maps.Keys(l.claims)) {
				if l.claims[name] == from {
					able = append(able, name)
				}
			}
			if len(able) > 0 {
				do(rapid.SampledFrom(able).Draw(r, "claim"))
			}
		}
	}
	return map[string]func(){
		"a moment passes":   func() { l.now = l.now.Add(time.Second) },
		"types are read":    l.readTypes,
		"a plan is made":    func() { l.plan(r) },
		"EC2 is called":     func() { l.pendingCall = &glance{l.size - l.in, l.now} },
		"EC2 responds":      l.respond,
		"EC2 launches":      move(ordered, func(name string) { l.claims[name] = launched; l.in++ }),
		"CreateFleet says":  move(launched, func(name string) { l.claims[name] = responded; l.count.Took("cr-1", name) }),
		"the status is in":  move(responded, func(name string) { l.claims[name] = written; l.notify(l.claim(name), false) }),
		"EC2 is out of it":  move(ordered, func(name string) { l.count.Exhausted("cr-1"); l.drop(name) }),
		"the claim goes":    move(ordered, l.drop),
		"the instance goes": move(written, func(name string) { l.drop(name); l.in--; l.gone = append(l.gone, l.now) }),
		"that is seen":      l.seen,
	}
}

func (l *lot) drop(name string) {
	l.notify(l.claim(name), true)
	delete(l.claims, name)
}

func (l *lot) respond() {
	if l.pendingCall != nil {
		l.count.Set("cr-1", l.pendingCall.free, l.pendingCall.at)
		l.pendingCall = nil
	}
}

// seen confirms that the first of the instances that are gone is.
func (l *lot) seen() {
	if len(l.gone) > 0 {
		l.count.Returned("cr-1", l.gone[0])
		l.gone = l.gone[1:]
	}
}

// plan orders as many claims as there are slots to be found, and some fewer at times.
func (l *lot) plan(r *rapid.T) {
	for range rapid.IntRange(0, l.left()).Draw(r, "orders") {
		l.orders++
		name := fmt.Sprintf("claim-%d", l.orders)
		l.claims[name] = ordered
		l.notify(l.claim(name), false)
	}
	if len(l.claims) > l.size {
		r.Fatalf("%d claims have %d slots reserved", len(l.claims), l.size)
	}
}

// FM F08, SC-45: in whatever order launches, responses, looks at EC2 and events come, and however old the
// types are that a plan is made with, a slot is never reserved twice. And when nothing changes any more, none is
// overlooked.
func TestFM_F08_ASlotIsNeverAllocatedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		l := newLot(t, rapid.IntRange(1, 4).Draw(r, "slots"))
		steps := l.steps(r)
		names := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			steps[rapid.SampledFrom(names).Draw(r, "step")]()
		}
		for _, name := range slices.Sorted(maps.Keys(l.claims)) {
			if l.claims[name] == ordered {
				l.in++
			}
			if l.claims[name] != written {
				l.count.Took("cr-1", name)
			}
			l.claims[name] = written
			l.notify(l.claim(name), false)
		}
		l.now = l.now.Add(time.Minute)
		l.count.Set("cr-1", l.size-l.in, l.now)
		l.readTypes()
		if got := l.left(); got != l.size-l.in {
			r.Errorf("at rest the next plan finds %d slots, EC2 has %d", got, l.size-l.in)
		}
	})
}
