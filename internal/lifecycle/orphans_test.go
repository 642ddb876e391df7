package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const sky = "sky:///a/" // the beginning of provider ids

// LC-39: which instances no claim has or will have.
func TestLC_39_Orphans(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	nameOf := func(id string) string {
		name, found := strings.CutPrefix(id, sky)
		if !found {
			return ""
		}
		return name
	}
	newClaim := func(name string, created time.Time, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{karpv1.LabelNodePool: "default"},
		}}
		claim.Spec.NodeClassRef.Name = "default"
		for _, c := range change {
			c(claim)
		}
		return claim
	}
	withInstance := func(name string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) { c.Status.ProviderID = sky + name }
	}
	newInstance := func(name string, launched time.Time, change ...func(*cloud.Instance)) cloud.Instance {
		i := cloud.Instance{ID: cloud.ID(sky + name), Launched: launched, Pool: "default", Class: "default"}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	later := start.Add(time.Hour) // long after the start of the process
	old := later.Add(-10 * time.Minute)
	deleting := func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: later} }
	for name, tc := range map[string]struct {
		instance cloud.Instance
		claims   []karpv1.NodeClaim
		given    map[string]types.UID
		now      time.Time
		want     bool
	}{
		"G2 no claim has it":           {instance: newInstance("i-1", old), now: later, want: true},
		"its claim is there":           {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old, withInstance("i-1"))}, now: later},
		"its claim is terminating":     {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old, withInstance("i-1"), deleting)}, now: later},
		"the claim has another":        {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old, withInstance("i-2"))}, now: later, want: true},
		"G2 it is young":               {instance: newInstance("i-1", later.Add(-30*time.Second)), now: later},
		"G2 it is just old enough":     {instance: newInstance("i-1", later.Add(-31*time.Second)), now: later, want: true},
		"N08 it comes from the future": {instance: newInstance("i-1", later.Add(time.Hour)), now: later},
		"it is terminating":            {instance: newInstance("i-1", old, func(i *cloud.Instance) { i.Terminating = true }), now: later},
		"E05 it is stopped":            {instance: newInstance("i-1", old, func(i *cloud.Instance) { i.Stopped = true }), now: later, want: true},
		"A02 it was launched for a claim that has not written it":  {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old)}, given: map[string]types.UID{"i-1": "uid-a"}, now: later},
		"A06 the claim it was launched for is gone":                {instance: newInstance("i-1", old), given: map[string]types.UID{"i-1": "uid-a"}, now: later, want: true},
		"the claim it was launched for has another":                {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old, withInstance("i-2"))}, given: map[string]types.UID{"i-1": "uid-a"}, now: later, want: true},
		"A01 right after the start a claim may adopt it":           {instance: newInstance("i-1", start.Add(-time.Minute)), claims: []karpv1.NodeClaim{*newClaim("a", start.Add(-2*time.Minute))}, now: start.Add(time.Minute)},
		"A01 but not one that is terminating":                      {instance: newInstance("i-1", start.Add(-time.Minute)), claims: []karpv1.NodeClaim{*newClaim("a", start.Add(-2*time.Minute), deleting)}, now: start.Add(time.Minute), want: true},
		"A01 nor one that was created after the start":             {instance: newInstance("i-1", start.Add(-time.Minute)), claims: []karpv1.NodeClaim{*newClaim("a", start.Add(time.Second))}, now: start.Add(time.Minute), want: true},
		"A01 and not for long":                                     {instance: newInstance("i-1", start.Add(-time.Minute)), claims: []karpv1.NodeClaim{*newClaim("a", start.Add(-2*time.Minute))}, now: start.Add(2 * time.Minute), want: true},
		"a claim with an id that cannot be read waits for nothing": {instance: newInstance("i-1", old), claims: []karpv1.NodeClaim{*newClaim("a", old, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "odd" })}, given: map[string]types.UID{"i-1": "uid-a"}, now: later, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lifecycle.Orphans(lifecycle.OrphanFacts{Instances: []cloud.Instance{tc.instance}, Claims: tc.claims, Name: nameOf, Owners: tc.given, Started: start, Now: tc.now})
			if (len(got) == 1) != tc.want {
				t.Errorf("terminated: %v, want %v", len(got) == 1, tc.want)
			}
		})
	}
}

// G3: an instance is gone only if the cloud says so.
func TestG3_InstanceGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		found        cloud.Instance
		err          error
		gone, unsure bool
	}{
		"it runs":              {},
		"it is terminating":    {found: cloud.Instance{Terminating: true}, gone: true},
		"it does not exist":    {err: &cloud.Error{Kind: cloud.NotFound}, gone: true},
		"the cloud cannot say": {err: errors.New("no response"), unsure: true},
	} {
		if gone, unsure := lifecycle.InstanceGone(tc.found, tc.err); gone != tc.gone || unsure != tc.unsure {
			t.Errorf("%s: InstanceGone() = %v, %v, want %v, %v", name, gone, unsure, tc.gone, tc.unsure)
		}
	}
}
