package cloudtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Cluster has a NodeClaim and a Node for each instance, as a cache shows them, and records what is done to them. It is
// a directory, a client for deletions and patches, and a recipient of events. Its fields are set before it is used.
type Cluster struct {
	ClaimOf  map[string]karpv1.NodeClaim // by instance
	NodeOf   map[string]corev1.Node      // by instance
	Fail     error                       // of Delete
	OnDelete func()                      // called in Delete; may be nil
	Metrics  *prometheus.Registry

	mu  sync.Mutex
	did []string
}

// NewCluster returns a cluster with these instances. They are in capacity reservation cr-1, as the label says.
func NewCluster(reservationLabel string, instances ...string) *Cluster {
	c := &Cluster{ClaimOf: map[string]karpv1.NodeClaim{}, NodeOf: map[string]corev1.Node{}, Metrics: prometheus.NewRegistry()}
	for _, id := range instances {
		c.ClaimOf[id] = karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "claim-" + id, UID: types.UID("uid-" + id),
			Labels: map[string]string{
				karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "spot",
				corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a", reservationLabel: "cr-1",
			},
		}}
		c.NodeOf[id] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + id}}
	}
	return c
}

// Note records something.
func (c *Cluster) Note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
}

// Did returns all records, in order.
func (c *Cluster) Did() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.did)
}

// Count returns how many records begin with a text.
func (c *Cluster) Count(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range c.did {
		if strings.HasPrefix(what, prefix) {
			n++
		}
	}
	return n
}

// Claims returns the claims of an instance.
func (c *Cluster) Claims(_ context.Context, instance string) ([]karpv1.NodeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if claim, found := c.ClaimOf[instance]; found {
		return []karpv1.NodeClaim{*claim.DeepCopy()}, nil
	}
	return nil, nil
}

// SetClaim gives an instance the claim that it has in another cluster.
func (c *Cluster) SetClaim(instance string, of *Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ClaimOf[instance] = of.ClaimOf[instance]
}

// Nodes returns the nodes of an instance.
func (c *Cluster) Nodes(_ context.Context, instance string) ([]corev1.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, found := c.NodeOf[instance]; found {
		return []corev1.Node{node}, nil
	}
	return nil, nil
}

// Delete records a deletion, with the UID that it requires.
func (c *Cluster) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	if c.Fail != nil {
		return c.Fail
	}
	if c.OnDelete != nil {
		c.OnDelete()
	}
	c.Note(fmt.Sprintf("delete %s uid=%s", obj.GetName(), *o.Preconditions.UID))
	return nil
}

// Patch records a patch.
func (c *Cluster) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	c.Note("patch " + obj.GetName() + " " + string(data))
	return err
}

// Emit records the reasons of events.
func (c *Cluster) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		c.Note("event " + string(e.Reason) + " " + obj.GetName())
	}
}

// Counted is a metric by its labels, with empty ones left out.
func (c *Cluster) Counted(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := c.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetValue())
				}
			}
			if f.GetName() == name {
				out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}
