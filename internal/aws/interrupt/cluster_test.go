package interrupt

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// cluster is objects by instance, as a cache shows them, and a record of what was done.
type cluster struct {
	mu     sync.Mutex
	claims map[string]karpv1.NodeClaim
	nodes  map[string]corev1.Node
	fail   error         // of Delete
	slow   time.Duration // Delete
	last   time.Time     // Delete
	did    []string
	reg    *prometheus.Registry
}

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newCluster(instances ...string) *cluster {
	c := &cluster{claims: map[string]karpv1.NodeClaim{}, nodes: map[string]corev1.Node{}, reg: prometheus.NewRegistry()}
	for _, id := range instances {
		c.claims[id] = karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "claim-" + id, UID: types.UID("uid-" + id),
			Labels: map[string]string{
				karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "spot",
				corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a", awsv1.LabelCapacityReservationID: "cr-1",
			},
		}}
		c.nodes[id] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + id}}
	}
	return c
}

func (c *cluster) actor() *respond.Actor {
	m := metric.New(c.reg)
	return &respond.Actor{
		Directory: c, Events: c, Metrics: m, ReservationLabel: awsv1.LabelCapacityReservationID, Now: func() time.Time { return start },
		Remover:         execute.Remover{Client: c, Events: c, Metrics: m, PodsToMove: func(context.Context, string) int { return 3 }},
		SpotLost:        func(instanceType, zone string) { c.note("spot lost " + instanceType + " " + zone) },
		ReservationLost: func(id string) { c.note("reservation lost " + id) },
	}
}

func (c *cluster) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
}

func (c *cluster) count(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range c.did {
		if strings.HasPrefix(what, prefix) {
			n++
		}
	}
	return n
}

func (c *cluster) Claims(_ context.Context, instance string) ([]karpv1.NodeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if claim, found := c.claims[instance]; found {
		return []karpv1.NodeClaim{*claim.DeepCopy()}, nil
	}
	return nil, nil
}

func (c *cluster) Nodes(_ context.Context, instance string) ([]corev1.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, found := c.nodes[instance]; found {
		return []corev1.Node{node}, nil
	}
	return nil, nil
}

func (c *cluster) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	if c.fail != nil {
		return c.fail
	}
	time.Sleep(c.slow)
	c.mu.Lock()
	c.last = time.Now()
	c.mu.Unlock()
	c.note(fmt.Sprintf("delete %s uid=%s", obj.GetName(), *o.Preconditions.UID))
	return nil
}

func (c *cluster) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	c.note("patch " + obj.GetName() + " " + string(data))
	return err
}

func (c *cluster) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		c.note("event " + string(e.Reason) + " " + obj.GetName())
	}
}

// counted is a metric by its labels, with empty ones left out.
func (c *cluster) counted(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := c.reg.Gather()
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
