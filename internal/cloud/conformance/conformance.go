package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Environment is a cloud under test, with what the tests need to control it. All fields are set.
type Environment struct {
	Provider    cloud.Provider
	Pool        *karpv1.NodePool                                // in its effective form
	Claim       func(name string) *karpv1.NodeClaim             // a new claim of the pool, stored where the provider finds it
	Record      func(claim *karpv1.NodeClaim, i cloud.Instance) // writes to the status of a claim what it got
	Restart     func() cloud.Provider                           // another process, which has seen nothing
	AdvanceTime func()                                          // lets time pass until requests to the cloud have completed
	Exhaust     func()                                          // from now on there is no capacity for any claim
	Foreign     cloud.ID                                        // of an instance of another cloud
}

// Run tests a cloud. Each test gets an environment of its own.
func Run(t *testing.T, open func(t *testing.T) Environment) {
	t.Helper()
	// any order: each has an environment of its own
	for name, test := range map[string]func(*testing.T, Environment){
		"a launch returns the instance that was launched": launchReturnsInstance,
		"a launch is idempotent":                          launchIsIdempotent,
		"a launch is idempotent across restarts":          launchSurvivesRestarts,
		"launches at the same time":                       launchConcurrently,
		"without capacity":                                withoutCapacity,
		"an instance lives and ends":                      lifeOfAnInstance,
		"ids of another cloud":                            foreignIDs,
		"a new instance has not drifted":                  noDriftAtFirst,
		"repairs never change":                            repairsNeverChange,
		"reboots":                                         reboots,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// kindOf is the kind of an error, which has to be one of the port.
func kindOf(t *testing.T, err error) cloud.Kind {
	t.Helper()
	if _, is := errors.AsType[*cloud.Error](err); err != nil && !is {
		t.Errorf("%T (%v) is no *cloud.Error", err, err)
	}
	return cloud.KindOf(err)
}

func (l *Environment) launch(t *testing.T, p cloud.Provider, claim *karpv1.NodeClaim) cloud.Instance {
	t.Helper()
	i, err := p.Launch(t.Context(), claim)
	if err != nil {
		t.Fatalf("launch of %s: %v", claim.Name, err)
	}
	return i
}

func (l *Environment) types(t *testing.T) []catalog.InstanceType {
	t.Helper()
	list, err := l.Provider.Types(t.Context(), l.Pool)
	if err != nil {
		t.Fatalf("types: %v", err)
	}
	return list
}

func (l *Environment) ids(t *testing.T) []cloud.ID {
	t.Helper()
	list, err := l.Provider.List(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var out []cloud.ID
	for _, i := range list {
		if slices.Contains(out, i.ID) {
			t.Errorf("%s is in the list twice", i.ID)
		}
		out = append(out, i.ID)
	}
	return out
}

func launchReturnsInstance(t *testing.T, l Environment) {
	t.Helper()
	claim := l.Claim("one")
	before, pool := claim.DeepCopy(), l.Pool.DeepCopy()
	types := l.types(t)
	got := l.launch(t, l.Provider, claim)
	n := slices.IndexFunc(types, func(of catalog.InstanceType) bool { return of.Name == got.Type })
	if n < 0 {
		t.Fatalf("%s is of type %q, which no pool could have", got.ID, got.Type)
	}
	if !slices.ContainsFunc(types[n].Offerings, func(o catalog.Offering) bool { return o.Zone == got.Zone && o.CapacityType == got.CapacityType }) {
		t.Errorf("%s in %q is no offering of %s", got.CapacityType, got.Zone, got.Type)
	}
	if got.ID == "" || got.Launched.IsZero() || got.Terminating || got.Stopped || len(got.Capacity) == 0 || len(got.Allocatable) == 0 {
		t.Errorf("something is missing: %+v", got)
	}
	clear(got.Labels) // it is the caller's
	again := l.launch(t, l.Provider, claim)
	if len(again.Labels) == 0 {
		t.Error("labels are shared between two responses")
	}
	if diff := cmp.Diff(before, claim); diff != "" {
		t.Errorf("the claim was changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pool, l.Pool); diff != "" {
		t.Errorf("the pool was changed (-before +after):\n%s", diff)
	}
}

func launchIsIdempotent(t *testing.T, l Environment) {
	t.Helper()
	one, two := l.Claim("one"), l.Claim("two")
	first := l.launch(t, l.Provider, one)
	if again := l.launch(t, l.Provider, one); again.ID != first.ID {
		t.Errorf("called again, it launched %s beside %s", again.ID, first.ID)
	}
	l.Record(one, first)
	other := l.launch(t, l.Provider, two)
	if other.ID == first.ID {
		t.Error("two claims share an instance")
	}
	l.Record(two, other)
	l.AdvanceTime()
	if ids := l.ids(t); len(ids) != 2 {
		t.Errorf("listed are %v, want one for each claim", ids)
	}
}

func launchSurvivesRestarts(t *testing.T, l Environment) {
	t.Helper()
	one, two := l.Claim("one"), l.Claim("two")
	first, second := l.launch(t, l.Provider, one), l.launch(t, l.Provider, two)
	l.AdvanceTime()
	next := l.Restart() // nothing was written down
	got := []cloud.ID{l.launch(t, next, one).ID, l.launch(t, next, two).ID}
	want := []cloud.ID{first.ID, second.ID}
	slices.Sort(got) // claims that allow the same may swap
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the next process has other instances (-before +after):\n%s", diff)
	}
}

func launchConcurrently(t *testing.T, l Environment) {
	t.Helper()
	const claims, each = 6, 3
	var mu sync.Mutex
	var wait sync.WaitGroup
	got := map[string]map[cloud.ID]bool{}
	for n := range claims {
		claim := l.Claim(fmt.Sprintf("claim-%d", n))
		got[claim.Name] = map[cloud.ID]bool{}
		for range each {
			wait.Go(func() {
				i, err := l.Provider.Launch(t.Context(), claim)
				if err != nil {
					t.Errorf("launch of %s: %v", claim.Name, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				got[claim.Name][i.ID] = true
			})
		}
		wait.Go(func() { l.lookAround(t) })
	}
	wait.Wait()
	owner := map[cloud.ID]string{}
	// any order: each is judged by itself
	for name, ids := range got {
		if len(ids) != 1 {
			t.Errorf("%s has %d instances", name, len(ids))
		}
		// any order: no two claims may have the same
		for id := range ids {
			if owner[id] != "" {
				t.Errorf("%s and %s share %s", owner[id], name, id)
			}
			owner[id] = name
		}
	}
	l.AdvanceTime()
	if ids := l.ids(t); len(ids) != claims {
		t.Errorf("listed are %d instances, want %d", len(ids), claims)
	}
}

// lookAround requests everything that changes nothing.
func (l *Environment) lookAround(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if _, err := l.Provider.Types(ctx, l.Pool); err != nil {
		t.Errorf("types: %v", err)
	}
	list, err := l.Provider.List(ctx)
	if err != nil {
		t.Errorf("list: %v", err)
	}
	for _, i := range list {
		if _, err := l.Provider.Find(ctx, i.ID); err != nil {
			t.Errorf("find: %v", err)
		}
	}
}

// offering is one way to launch a type.
type offering struct {
	instanceType, zone, capacityType string
}

func offerings(list []catalog.InstanceType) map[offering]bool {
	out := map[offering]bool{}
	for _, of := range list {
		for _, o := range of.Offerings {
			key := offering{of.Name, o.Zone, o.CapacityType}
			out[key] = out[key] || o.Available
		}
	}
	return out
}

// withoutCapacity: offerings without capacity stay in the list of types, and lists that were given out stay as they are.
func withoutCapacity(t *testing.T, l Environment) {
	t.Helper()
	before := l.types(t)
	listed := offerings(before)
	l.Exhaust()
	_, err := l.Provider.Launch(t.Context(), l.Claim("one"))
	if kind := kindOf(t, err); err == nil || kind != cloud.NoCapacity {
		t.Errorf("launch: %v (kind %v), want NoCapacity", err, kind)
	}
	after := offerings(l.types(t))
	if diff := cmp.Diff(keys(listed), keys(after)); diff != "" {
		t.Errorf("offerings without capacity are gone from the list (-before +after):\n%s", diff)
	}
	lost := 0
	for key, available := range after {
		if listed[key] && !available {
			lost++
		}
	}
	if lost == 0 {
		t.Error("a launch without capacity did not change what is available")
	}
	if diff := cmp.Diff(listed, offerings(before), cmp.AllowUnexported(offering{})); diff != "" {
		t.Errorf("a list that was given out changed (-before +after):\n%s", diff)
	}
	if ids := l.ids(t); len(ids) > 0 {
		t.Errorf("launched all the same: %v", ids)
	}
}

func keys(of map[offering]bool) []string {
	var out []string
	for key := range of {
		out = append(out, fmt.Sprint(key))
	}
	slices.Sort(out)
	return out
}

func lifeOfAnInstance(t *testing.T, l Environment) {
	t.Helper()
	claim := l.Claim("one")
	launched := l.launch(t, l.Provider, claim)
	l.Record(claim, launched)
	l.AdvanceTime()
	found, err := l.Provider.Find(t.Context(), launched.ID)
	if err != nil || found.ID != launched.ID || found.Type != launched.Type || found.Zone != launched.Zone || found.CapacityType != launched.CapacityType || found.Terminating {
		t.Errorf("found %+v, %v; want %+v", found, err, launched)
	}
	if ids := l.ids(t); !slices.Equal(ids, []cloud.ID{launched.ID}) {
		t.Errorf("listed are %v, want %s", ids, launched.ID)
	}
	for range 2 { // it may be repeated
		if err := l.Provider.Terminate(t.Context(), launched.ID); err != nil && kindOf(t, err) != cloud.NotFound {
			t.Errorf("terminate: %v", err)
		}
	}
	if found, err := l.Provider.Find(t.Context(), launched.ID); err == nil && !found.Terminating || err != nil && kindOf(t, err) != cloud.NotFound {
		t.Errorf("find while it ends: %+v, %v", found, err)
	}
	l.AdvanceTime()
	if _, err := l.Provider.Find(t.Context(), launched.ID); kindOf(t, err) != cloud.NotFound {
		t.Errorf("find once it is gone: %v, want NotFound", err)
	}
	if err := l.Provider.Terminate(t.Context(), launched.ID); kindOf(t, err) != cloud.NotFound {
		t.Errorf("terminate once it is gone: %v, want NotFound", err)
	}
	if ids := l.ids(t); len(ids) > 0 {
		t.Errorf("listed are %v, which are gone", ids)
	}
}

// foreignIDs: one of another cloud cannot be looked up, which is not "does not exist".
func foreignIDs(t *testing.T, l Environment) {
	t.Helper()
	ctx := t.Context()
	claim := l.Claim("one")
	claim.Status.ProviderID = string(l.Foreign)
	// any order: each is judged by itself
	for op, call := range map[string]func(context.Context) error{
		"find":      func(ctx context.Context) error { _, err := l.Provider.Find(ctx, l.Foreign); return err },
		"terminate": func(ctx context.Context) error { return l.Provider.Terminate(ctx, l.Foreign) },
		"reboot":    func(ctx context.Context) error { return l.Provider.Reboot(ctx, claim, "op") },
	} {
		if err := call(ctx); kindOf(t, err) != cloud.Invalid {
			t.Errorf("%s: %v, want Invalid", op, err)
		}
	}
}

func noDriftAtFirst(t *testing.T, l Environment) {
	t.Helper()
	claim := l.Claim("one")
	l.Record(claim, l.launch(t, l.Provider, claim))
	l.AdvanceTime()
	if why, err := l.Provider.Drift(t.Context(), claim); err != nil || why.Code != "" {
		t.Errorf("drift: %+v, %v", why, err)
	}
}

func repairsNeverChange(t *testing.T, l Environment) {
	t.Helper()
	first := l.Provider.Repairs()
	want := slices.Clone(first)
	clear(first) // it is the caller's
	l.launch(t, l.Provider, l.Claim("one"))
	for _, p := range []cloud.Provider{l.Provider, l.Restart()} {
		if diff := cmp.Diff(want, p.Repairs()); diff != "" {
			t.Errorf("repairs (-before +after):\n%s", diff)
		}
	}
}

func reboots(t *testing.T, l Environment) {
	t.Helper()
	claim := l.Claim("one")
	if kind := kindOf(t, l.Provider.Reboot(t.Context(), claim, "early")); !final(kind) {
		t.Errorf("a claim without instance: kind %v, want one that is not repeated", kind)
	}
	launched := l.launch(t, l.Provider, claim)
	l.Record(claim, launched)
	l.AdvanceTime()
	for range 2 { // one request, repeated
		if err := l.Provider.Reboot(t.Context(), claim, "op"); err != nil {
			t.Errorf("reboot: %v", err)
		}
	}
	l.AdvanceTime()
	if found, err := l.Provider.Find(t.Context(), launched.ID); err != nil || found.Terminating {
		t.Errorf("after a reboot: %+v, %v", found, err)
	}
	if err := l.Provider.Terminate(t.Context(), launched.ID); err != nil {
		t.Errorf("terminate: %v", err)
	}
	l.AdvanceTime()
	if kind := kindOf(t, l.Provider.Reboot(t.Context(), claim, "late")); !final(kind) {
		t.Errorf("an instance that is gone: kind %v, want one that is not repeated", kind)
	}
}

// final reports whether repeating a reboot cannot help (V15-66).
func final(kind cloud.Kind) bool {
	return slices.Contains([]cloud.Kind{cloud.Unsupported, cloud.Invalid, cloud.Denied, cloud.NotFound}, kind)
}
