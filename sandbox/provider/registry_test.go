package provider

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

// registry is the claims by instance, and a record of what was done about them.
type registry struct {
	mu     sync.Mutex
	claims map[string]karpv1.NodeClaim
	did    []string
}

func (r *registry) recordEntry(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
}

// sortedRecord is the record in a fixed order.
func (r *registry) sortedRecord() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(r.did)
}

// count is how often something was done.
func (r *registry) count(what string) int {
	n := 0
	for _, did := range r.sortedRecord() {
		if strings.HasPrefix(did, what) {
			n++
		}
	}
	return n
}

func (r *registry) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[id] = karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim-" + id, UID: types.UID("uid-" + id), Labels: map[string]string{
			karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "spot", corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: zoneA,
			awsv1.LabelCapacityReservationID: "cr-1",
		},
	}}
}

func (r *registry) Claims(_ context.Context, instance string) ([]karpv1.NodeClaim, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, found := r.claims[instance]; found {
		return []karpv1.NodeClaim{*c.DeepCopy()}, nil
	}
	return nil, nil
}

func (r *registry) Nodes(context.Context, string) ([]corev1.Node, error) { return nil, nil }

func (r *registry) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	r.recordEntry("delete " + obj.GetName())
	return nil
}

func (r *registry) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	r.recordEntry("deadline " + obj.GetName())
	return nil
}

func (r *registry) Emit(_ client.Object, events ...event.Event) {
	for _, e := range events {
		r.recordEntry("event " + string(e.Reason))
	}
}

func (l *awsEnv) newActor(r *registry) *respond.Actor {
	return &respond.Actor{
		Directory: r, Events: r, Metrics: l.metrics, ReservationLabel: awsv1.LabelCapacityReservationID, Now: l.currentTime, Remover: execute.Remover{Client: r, Events: r, Metrics: l.metrics},
		SpotLost:        func(instanceType, zone string) { r.recordEntry("spot lost " + instanceType + " " + zone) },
		ReservationLost: func(id string) { r.recordEntry("reservation lost " + id) },
	}
}

// registryOf knows claims of instances.
func registryOf(ids ...string) *registry {
	r := &registry{claims: map[string]karpv1.NodeClaim{}}
	for _, id := range ids {
		r.add(id)
	}
	return r
}
