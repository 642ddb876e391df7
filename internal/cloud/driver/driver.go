package driver

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Driver is a cloud before it is connected. All fields are set.
type Driver struct {
	Name             string          // in metrics
	Title            string          // as people call it
	Settings         config.Section  // what it adds to the settings of the controller; its functions find them in Config.Cloud
	Words            reqs.Vocabulary // of the labels of its nodes, with those of the core
	Labels           metric.Labels   // what its nodes and node classes add to metrics
	ReservationLabel string          // of nodes: the capacity reservation that their instance runs in
	InstanceName     directory.Key
	AddToScheme      func(*runtime.Scheme) error // adds the kinds of its API
	Classes          func(config.Config) []Class // never none

	// Connect reaches the cloud and finds out what launching needs. Every error is final and names what to change.
	Connect func(context.Context, Options) (Cloud, error)
	// Cleaner connects a program that launches nothing. It makes no API call yet.
	Cleaner func(ctx context.Context, cfg config.Config, version string, metrics *metric.Set) (Cleaner, error)
	// OpenMarket reads what can be launched in a region and what it costs, with the credentials of the user. An empty region
	// is that of the user's configuration.
	OpenMarket func(ctx context.Context, cfg config.Config, region, version string) (Market, error)
	Access     string // how a user whose credentials do not open the market gets it to open

	ConditionDocs func() (classes, denials []condition.Doc) // what users read about conditions: of node classes, and of launches that are denied
}

// Class is a kind of node classes.
type Class struct {
	schema.GroupVersionKind

	New        func() client.Object
	NewList    func() client.ObjectList
	Conditions func(client.Object) []metav1.Condition
	Refusals   func(class client.Object, pool *karpv1.NodePool) []reason.Reason // what a pool in its effective form requests and nodes of the class cannot be given
	Finalizer  string                                                           // that only the controller removes
	Makes      string                                                           // what it makes in the cloud for a class, in the plural
}

// Cleaner deletes what was made in the cloud for a node class that no claim uses.
type Cleaner func(ctx context.Context, class client.Object) error

// Market is what can be launched and what it costs, for programs that launch nothing: it only reads.
type Market interface {
	// Lanes names the resources that instance types can have. It never changes.
	Lanes() resources.Table
	// Types returns the instance types of a NodePool with a class, both as stored.
	Types(class client.Object, pool *karpv1.NodePool) ([]catalog.InstanceType, error)
	// CountReserved reads how much is free of the capacity that a class may use and that was reserved. Until it has, that counts
	// as full.
	CountReserved(ctx context.Context, class client.Object) error
	// Price is what an instance costs an hour.
	Price(instanceType, zone, capacityType string) (usd float64, known bool)
	// Stale is why prices could not be read, and which are used instead. Nil: they are current.
	Stale() (instead string, why error)
}

// Cloud is a cloud that is connected.
type Cloud interface {
	cloud.Provider

	// Lanes names the resources that instance types can have. It never changes.
	Lanes() resources.Table
	// Priced reports whether prices were requested since this process leads, even if that failed.
	Priced() bool
	// Gates hold the registration of nodes until the cloud knows all about them (LC-09).
	Gates() []cloud.Gate

	// Interruptions are what hands the actor each Notice of the cloud while it runs.
	Interruptions(actor *respond.Actor) []manager.Runnable
	// SpotLost takes an offering out of the market for a while: an instance of it is interrupted.
	SpotLost(instanceType, zone string)
	// SpotAtRisk counts against an offering when plans are compared: an instance of it may be interrupted soon.
	SpotAtRisk(instanceType, zone string)
	// ReservationLost says that nothing is left in a capacity reservation.
	ReservationLost(id string)

	// Register adds the controllers that only this cloud has. They run only while this process leads (15).
	Register(mgr ctrl.Manager) error
}

// Reporter emits events about an object.
type Reporter interface {
	Emit(obj client.Object, events ...event.Event)
	Flips(obj client.Object, flips []condition.Flip)
}

// Options are what a Cloud needs. All but the last three have to be set.
type Options struct {
	Config  config.Config
	Version string        // of this program, for the user agent
	Kube    *rest.Config  // of the API server
	Client  client.Client // with a cache, which is not read before it runs
	Reader  client.Reader // without one
	Events  Reporter
	Metrics *metric.Set
	Remover execute.Remover // of claims whose instance ends
	Now     func() time.Time

	// Ledger is shared with the collector of instances without NodeClaim; nil: there is none.
	Ledger *adopt.Ledger
	// OverlayPrices are prices that NodeOverlays give to types without one; the version rises when they
	// change. Nil: none.
	OverlayPrices func() (prices map[string]float64, version uint64)
	// Overlaid returns the instance types for the launch of a claim as NodeOverlays make them. The table has lanes for
	// what they add; the zero Table: they add nothing. Nil: there are none.
	Overlaid func(ctx context.Context, claim *karpv1.NodeClaim, types []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error)
}
