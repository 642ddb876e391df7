package store

import (
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Options of a Store.
type Options struct {
	Words         reqs.Vocabulary
	Lanes         resources.Table // those that instance types are written in
	Classes       []schema.GroupKind
	Strict        bool // manifests are read without leniencies
	CostManaged   bool // gate PodDeletionCostManagement
	DefaultSpread []corev1.TopologySpreadConstraint
	Devices       bool // pods with ResourceClaims are planned for (DR-01)
	Now           func() time.Time

	Self             podKey // the pod that this process is, as far as known
	ReservationLabel string // of Nodes on reserved capacity: the id of the reservation

	// Wake receives the UID of a pod or node that may need a plan. It must not block and not call back.
	Wake func(types.UID)

	// OnBound is called for each pod that was planned for when it is bound, with whether it is bound where it was
	// planned. It must not block and not call back. It may be nil.
	OnBound func(asPlanned bool)
}

// Store is the in-memory state of the cluster. It is safe for concurrent use.
type Store struct {
	opts Options

	mu       sync.Mutex
	revision uint64 // counts changes
	changes  uint64 // counts those that matter to consolidation
	feeds    []feed
	reader   *cluster.Reader
	selects  cluster.LabelUse // labels that selectors use
	keys     int              // how many of them the reader knows
	guards   *cluster.Guards

	pools       map[string]*pool
	claims      map[string]*karpv1.NodeClaim // as stored, by name
	nodes       map[string]*corev1.Node
	byProvider  map[string]*providerObjects    // by provider id
	places      map[string]*place              // by placeKey
	placeKeys   map[string]string              // name of a Node to the key of its place
	pods        map[podKey]*podSlot            // all that have not ended
	onNode      map[string]map[podKey]*podSlot // by countedNode
	waiting     map[podKey]*podSlot            // those that may need a node
	nearlyBound map[podKey]*podSlot            // those that are about to be bound to a node, and count there
	daemons     map[types.UID]*daemon
	ranges      map[string]map[string]*corev1.LimitRange // by namespace and name
	defaults    map[string]corev1.ResourceList           // default requests of containers, by namespace
	csi         map[string]*storagev1.CSINode
	volumes     volumes
	budgets     map[podKey]*policyv1.PodDisruptionBudget
	namespaces  map[string]map[string]string
	owners      owners
	devices     deviceObjects
	extended    map[corev1.ResourceName]string // extended resources that are served by devices, with their DeviceClass

	unwatched       map[string]time.Time              // created claims that the watch has not delivered yet, until when they count
	planned         map[string][]podKey               // pods that a claim was created for, by claim
	ordered         map[string]uint64                 // at which revision a claim was created
	plannedClaims   map[podKey]string                 // claim where the last plan placed a pending pod
	recalledPods    map[string][]uint32               // pods that claims of an earlier process were ordered for, as hashes
	altered         map[string]bool                   // claims whose stored form differs from the requested one
	lastTypes       map[string][]catalog.InstanceType // instance types of each pool when they were last known
	reserved        map[*reservation]bool
	incompleteSince time.Time // since when the cache has been incomplete; zero if it is complete

	reboots map[types.UID][]time.Time // when reboots of claims were requested

	virtual map[podKey]*podSlot // pods that CapacityBuffers keep room for; the API server has none of them
}

type podKey = cluster.PodKey

// feed is a watch that updates the Store.
type feed struct {
	kind   string
	synced func() bool
}

// pool is a NodePool in the form that decisions read.
type pool struct {
	effective *karpv1.NodePool
}

// providerObjects are the NodeClaim and the Nodes that share a provider id.
type providerObjects struct {
	claim string
	nodes map[string]bool
}

// place is somewhere pods run: a claim, a Node, or both.
type place struct {
	claim          *karpv1.NodeClaim // effective; nil: not managed by Dovetail
	node           *corev1.Node      // nil: only claimed so far
	valid          bool              // read is up to date
	timeLimited    bool              // a pod on it is protected for a limited time: valid for one snapshot
	volumes        bool              // pods on it mount volumes
	volumesAt      uint64            // revision of volumes that was read
	read           cluster.Node
	nominated      time.Time            // until when pods are expected
	expected       map[podKey]time.Time // pods that wait and are expected, until when
	displacedUntil time.Time            // until when pods of terminating nodes are expected
	launchedAt     time.Time            // when its launch was seen; zero: not by this process
	known          bool                 // has been part of a command of this process
	commanded      bool                 // part of a running command,
	removing       bool                 // and will be removed unless the command fails
}

// podSlot is a pod with what was read of it.
type podSlot struct {
	pod         *corev1.Pod
	valid       bool
	volumes     bool
	read        cluster.Pod // of a waiting pod
	seen        time.Time   // first seen waiting
	decided     time.Time   // first decision about it
	countedNode string      // node whose capacity it uses: it is bound, or about to be; empty: none
	target      string      // node that it is about to be bound to; empty: none
	targetSince time.Time   // since when
}

type daemon struct {
	set    *appsv1.DaemonSet
	pods   map[podKey]*corev1.Pod
	newest *corev1.Pod
}

// New returns an empty Store.
func New(o Options) *Store {
	s := &Store{
		opts: o, selects: cluster.LabelUse{}, guards: cluster.NewGuards(time.Time{}, nil),
		pools: map[string]*pool{}, claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{},
		byProvider: map[string]*providerObjects{}, places: map[string]*place{}, placeKeys: map[string]string{},
		pods: map[podKey]*podSlot{}, onNode: map[string]map[podKey]*podSlot{}, waiting: map[podKey]*podSlot{}, nearlyBound: map[podKey]*podSlot{},
		daemons: map[types.UID]*daemon{}, ranges: map[string]map[string]*corev1.LimitRange{}, defaults: map[string]corev1.ResourceList{}, csi: map[string]*storagev1.CSINode{}, volumes: newVolumes(),
		budgets: map[podKey]*policyv1.PodDisruptionBudget{}, namespaces: map[string]map[string]string{}, owners: newOwners(), devices: newDeviceObjects(),
		unwatched: map[string]time.Time{}, planned: map[string][]podKey{}, ordered: map[string]uint64{}, plannedClaims: map[podKey]string{}, recalledPods: map[string][]uint32{}, altered: map[string]bool{},
		lastTypes: map[string][]catalog.InstanceType{}, reserved: map[*reservation]bool{},
		reboots: map[types.UID][]time.Time{},
	}
	if s.opts.Wake == nil {
		s.opts.Wake = func(types.UID) {}
	}
	s.reader = s.newReader()
	return s
}

func (s *Store) newReader() *cluster.Reader {
	s.keys = len(s.selects)
	return cluster.NewReader(s.opts.Words, cluster.ReaderOptions{
		Resources:           s.opts.Lanes,
		KeepLabel:           s.selects.Keep,
		Evictable:           func(p *corev1.Pod) bool { return s.guards.Evictable(p) },
		DefaultSpread:       s.opts.DefaultSpread,
		SelectorOf:          s.owners.selectorOf,
		DeletionCostManaged: s.opts.CostManaged,
		Devices:             s.opts.Devices,
		Extended:            s.extended,
	})
}

// Synced reports whether every object that existed at the start is in the cache.
func (s *Store) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cacheComplete()
}

func (s *Store) cacheComplete() bool {
	if len(s.unsyncedKinds()) == 0 {
		s.incompleteSince = time.Time{}
		return len(s.feeds) > 0
	}
	if s.incompleteSince.IsZero() {
		s.incompleteSince = s.opts.Now()
	}
	return false
}

// unsyncedKinds lists the kinds of objects that are not completely in the cache yet.
func (s *Store) unsyncedKinds() []string {
	var kinds []string
	for _, f := range s.feeds {
		if !f.synced() {
			kinds = append(kinds, f.kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Unsynced is for how long the cache has been incomplete, and which kinds of objects are missing.
func (s *Store) Unsynced() (time.Duration, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cacheComplete() || s.incompleteSince.IsZero() {
		return 0, nil
	}
	return s.opts.Now().Sub(s.incompleteSince), s.unsyncedKinds()
}

// Len is the number of places.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.places)
}
