package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/conformance"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// What the controller is simulated with is a cloud like any other: with a driver around it, it has everything that the wiring
// takes from AWS.
func TestTheMarketIsACloud(t *testing.T) {
	t.Parallel()
	conformance.RunDriver(t, func(t *testing.T) conformance.DriverEnvironment {
		t.Helper()
		w := newWorld(Config{
			Seed: 1, Machines: Machines(), Boot: time.Minute,
			Repairs: []cloud.Repair{{Condition: corev1.NodeReady, Status: corev1.ConditionFalse, Toleration: time.Minute, Action: cloud.ReplaceNode}},
		})
		scheme := runtime.NewScheme()
		if err := addToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		kube := fake.NewClientBuilder().WithScheme(scheme).Build()
		return conformance.DriverEnvironment{
			Driver: marketDriver(w), Settings: map[string]string{"market-name": "market", "log-level": "debug"},
			Options: driver.Options{
				Version: "test", Kube: &rest.Config{}, Client: kube, Reader: kube, Metrics: metric.New(prometheus.NewRegistry(), metric.Labels{}), Now: func() time.Time { return w.now },
			},
			Class: &marketClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Conditions: []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}},
			Open:  func(c driver.Cloud) conformance.Environment { return marketEnvironment(w, c) },
		}
	})
}

func marketEnvironment(w *World, connected driver.Cloud) conformance.Environment {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	return conformance.Environment{
		Provider: connected, Pool: pool, Foreign: "aws:///eu-west-1a/i-1",
		Claim: func(name string) *karpv1.NodeClaim {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.now), Labels: map[string]string{karpv1.LabelNodePool: pool.Name},
			}}
			claim.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m6.large", "c6.large"}}}
			return claim
		},
		Record:      func(claim *karpv1.NodeClaim, i cloud.Instance) { claim.Status.ProviderID = string(i.ID) },
		Restart:     func() cloud.Provider { return connected }, // the market keeps the books itself: a process has no state to lose
		AdvanceTime: func() { w.runUntil(w.now.Add(10*time.Minute), func() bool { return false }) },
		Exhaust: func() {
			for i := range w.market.machines {
				for _, zone := range Zones() {
					for _, o := range w.market.machines[i].offers(zone) {
						w.market.gone[offering(w.market.machines[i].Name, zone, o.CapacityType)] = w.now.Add(time.Hour)
					}
				}
			}
		},
	}
}

const reservationLabel = "sim.example.com/reservation"

// marketDriver is the market for the wiring.
func marketDriver(w *World) driver.Driver {
	return driver.Driver{
		Name: "sim", Title: "the market", Settings: marketSettings, ReservationLabel: reservationLabel,
		Words: reqs.CoreVocabulary().With(reqs.Vocabulary{
			WellKnownKeys: map[string]bool{reservationLabel: true}, NameKeys: map[string]bool{reservationLabel: true},
		}),
		Labels: metric.Labels{Nodes: []string{reservationLabel}, Classes: []string{"marketclass"}},
		InstanceName: func(providerID string) string {
			_, name, _ := strings.Cut(strings.TrimPrefix(providerID, scheme), "/")
			if !strings.HasPrefix(providerID, scheme) {
				return ""
			}
			return name
		},
		AddToScheme: addToScheme,
		Classes: func(config.Config) []driver.Class {
			return []driver.Class{{
				GroupVersionKind: marketVersion.WithKind("MarketClass"),
				New:              func() client.Object { return &marketClass{} },
				NewList:          func() client.ObjectList { return &marketClassList{} },
				Conditions:       func(o client.Object) []metav1.Condition { return o.(*marketClass).Conditions },
				Refusals:         func(client.Object, *karpv1.NodePool) []reason.Reason { return nil },
				Finalizer:        "sim.example.com/termination", Makes: "nothing",
			}}
		},
		Connect: func(context.Context, driver.Options) (driver.Cloud, error) { return connectedMarket{w.market}, nil },
		Cleaner: func(context.Context, config.Config, string, *metric.Set) (driver.Cleaner, error) {
			return func(_ context.Context, class client.Object) error {
				if _, ours := class.(*marketClass); !ours {
					return fmt.Errorf("%T is no class of the market", class)
				}
				return nil
			}, nil
		},
		OpenMarket: func(context.Context, config.Config, string, string) (driver.Market, error) {
			return openMarket{w.market}, nil
		},
		Access: "be there",
		ConditionDocs: func() (classes, denials []condition.Doc) {
			return condition.ClassDocs("MarketClass", "it can be used", "it cannot", nil), nil
		},
	}
}

// marketSettings are what the market adds to the settings.
func marketSettings() (table []config.Setting, values func() any) {
	var name string
	return []config.Setting{{
		Flag: "market-name", Usage: "name of the market", Required: true, As: config.Text(&name, func(s string) bool { return s != "" }, "a name"),
	}}, func() any { return name }
}

// connectedMarket is the market with what stands around a provider.
type connectedMarket struct{ *simCloud }

func (m connectedMarket) Lanes() resources.Table { return m.lanes }

func (connectedMarket) Priced() bool { return true }

func (connectedMarket) Gates() []cloud.Gate { return nil }

func (connectedMarket) Register(ctrl.Manager) error { return nil }

func (connectedMarket) SpotAtRisk(string, string) {}

func (m connectedMarket) Interruptions(*respond.Actor) []manager.Runnable {
	return []manager.Runnable{manager.RunnableFunc(func(context.Context) error { return nil })}
}

func (m connectedMarket) SpotLost(instanceType, zone string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.markUnavailable(offering(instanceType, zone, karpv1.CapacityTypeSpot))
}

func (m connectedMarket) ReservationLost(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.reservationOf(id); r != nil {
		r.free, m.types = 0, nil
	}
}

// openMarket is the market for programs that launch nothing.
type openMarket struct{ market *simCloud }

func (m openMarket) Lanes() resources.Table { return m.market.lanes }

func (m openMarket) CountReserved(context.Context, client.Object) error { return nil }

func (m openMarket) Stale() (instead string, why error) { return "there are no others", nil }

func (m openMarket) Types(client.Object, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	return m.market.Types(context.Background(), nil)
}

func (m openMarket) Price(instanceType, zone, capacityType string) (usd float64, known bool) {
	for i := range m.market.machines {
		if m.market.machines[i].Name != instanceType {
			continue
		}
		for _, o := range m.market.machines[i].offers(zone) {
			if o.CapacityType == capacityType {
				return o.Price, true
			}
		}
	}
	return 0, false
}

var marketVersion = schema.GroupVersion{Group: "sim.example.com", Version: "v1"}

// marketClass is a node class of the market. It says nothing.
type marketClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (c *marketClass) DeepCopyObject() runtime.Object {
	out := &marketClass{TypeMeta: c.TypeMeta, ObjectMeta: *c.ObjectMeta.DeepCopy()}
	for i := range c.Conditions {
		out.Conditions = append(out.Conditions, *c.Conditions[i].DeepCopy())
	}
	return out
}

type marketClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []marketClass `json:"items"`
}

func (l *marketClassList) DeepCopyObject() runtime.Object {
	out := &marketClassList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*marketClass))
	}
	return out
}

func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(marketVersion.WithKind("MarketClass"), &marketClass{})
	s.AddKnownTypeWithName(marketVersion.WithKind("MarketClassList"), &marketClassList{})
	metav1.AddToGroupVersion(s, marketVersion)
	return nil
}
