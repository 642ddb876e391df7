package cluster

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// ReaderOptions is what reading depends on besides the objects. The zero value is usable.
type ReaderOptions struct {
	Resources           resources.Table                   // lanes to start from: those the catalog was read with
	KeepLabel           func(key string) bool             // pod labels that some selector may use; nil keeps all (see LabelUse)
	Evictable           func(*corev1.Pod) bool            // nothing holds the pod on its node (scheduling 3.2); nil: every pod (see Guards)
	DefaultSpread       []corev1.TopologySpreadConstraint // for pods without a constraint of their own (SC-37)
	SelectorOf          func(*corev1.Pod) Selector        // selector of a default constraint; one that matches nothing or everything gives the pod none
	DeletionCostManaged bool                              // gate PodDeletionCostManagement: pod-deletion-cost is ours, not the user's (V15-52)
	Devices             bool                              // pods with ResourceClaims are planned for (DR-01)
	Extended            map[corev1.ResourceName]string    // DeviceClasses that stand for extended resources (DR-15)
}

// Reader turns Kubernetes objects into the values of a Snapshot. Pods that mean the same get the same
// *Shape, however they are written, in this and every later Snapshot of the Reader.
//
// It keeps every shape it has seen, and a lane for every resource name; lanes never move. Renew drops
// the shapes. A Reader belongs to one goroutine: it reuses its buffers.
type Reader struct {
	words      reqs.Vocabulary
	opts       ReaderOptions
	table      resources.Table
	namespaces map[string]map[string]string
	epoch      int64 // counts changes of namespaces, on which shapes depend

	// A shape is an identity, constraints and requests. Each of the first two is found by the raw bytes of the
	// fields it was read from: hashing those is far cheaper than reading them to find out that the
	// result is known, and pods that differ in size alone share all the rest.
	identities  map[string]*identity
	constraints map[string]*constraints
	meanings    map[string]*constraints // by their text: constraints written in several ways are one
	selectors   map[string]Selector
	shapes      map[string]*Shape // by the numbers of the two, and the requests

	anywhere []reqs.Set // what pods without node constraints require

	digest  digest
	claims  []claimFacts
	amounts amountNames
}

// NewReader returns a Reader that knows no shape yet.
func NewReader(words reqs.Vocabulary, opts ReaderOptions) *Reader {
	return &Reader{
		words: words, opts: opts, table: opts.Resources,
		identities: map[string]*identity{}, constraints: map[string]*constraints{}, meanings: map[string]*constraints{},
		selectors: map[string]Selector{}, shapes: map[string]*Shape{}, anywhere: []reqs.Set{{}},
	}
}

// Renew returns a Reader with the same options, lanes and namespaces without the cached shapes:
// what to use once most of the shapes belong to pods that are gone.
func (r *Reader) Renew() *Reader {
	fresh := NewReader(r.words, r.opts)
	fresh.table, fresh.namespaces = r.table, r.namespaces
	return fresh
}

// AddResources gives lanes to resources that have none yet, and returns the lanes known then.
func (r *Reader) AddResources(names ...corev1.ResourceName) resources.Table {
	r.table = r.table.Extend(names...)
	return r.table
}

// Table returns the lanes known so far. Vecs made before it grew stay valid.
func (r *Reader) Table() resources.Table { return r.table }

// Len is the number of shapes kept.
func (r *Reader) Len() int { return len(r.shapes) }

// SetNamespaces sets the labels of the namespaces, which namespaceSelectors choose from (SC-36). Pods
// read before keep what they resolved to. The map must not change afterwards.
func (r *Reader) SetNamespaces(labels map[string]map[string]string) {
	if !maps.EqualFunc(r.namespaces, labels, maps.Equal[map[string]string, map[string]string]) {
		r.namespaces, r.epoch = labels, r.epoch+1
	}
}

// Pod reads one pod. A shape that is known costs about a microsecond and allocates nothing. With nil
// vols volumes are ignored.
func (r *Reader) Pod(p *corev1.Pod, vols VolumeLookup) Pod {
	if p == nil {
		p = &corev1.Pod{}
	}
	own := ownersOf(p)
	return Pod{
		Key:         PodKey{Namespace: p.Namespace, Name: p.Name},
		UID:         string(p.UID),
		Created:     p.CreationTimestamp.UTC(),
		Shape:       r.shape(input{pod: p, vols: vols}),
		Daemon:      own.daemonSet,
		Terminating: p.DeletionTimestamp != nil,
		Stays:       r.staysOnNode(p, own),
		Late:        own.statefulSet,
		Priority:    priority(p),
		EvictCost:   EvictCost(p, r.opts.DeletionCostManaged),
	}
}

// Shape reads the template of a DaemonSet (SC-22): limits are copied into missing requests, what LimitRanges
// say is requested where that leaves nothing (see DefaultRequests), and volumes are ignored. Rules for
// pending pods do not apply to it; it is Invalid only if its pod can run on no node that may be planned.
func (r *Reader) Shape(namespace string, t *corev1.PodTemplateSpec, defaults corev1.ResourceList) *Shape {
	return r.templateShape(namespace, t, defaults, nil)
}

func (r *Reader) templateShape(namespace string, t *corev1.PodTemplateSpec, defaults corev1.ResourceList, claims []string) *Shape {
	p := &corev1.Pod{}
	if t != nil {
		p.ObjectMeta, p.Spec = t.ObjectMeta, t.Spec
	}
	p.Namespace = namespace
	CompleteRequests(&p.Spec, defaults)
	return r.shape(input{pod: p, template: true, examples: claims})
}

// Daemon reads a DaemonSet: its newest pod if there is one, else its template. The required node
// affinity is always the template's, since real pods are pinned to a node (SC-22). What LimitRanges have
// containers request counts with either: it is the next pod that needs room.
func (r *Reader) Daemon(set *appsv1.DaemonSet, newest *corev1.Pod, defaults corev1.ResourceList) Daemon {
	template := set.Spec.Template
	var claims []string
	if newest != nil {
		claims = r.daemonClaims(newest)
		template.Labels = newest.Labels
		template.Spec = newest.Spec
		template.Spec.Affinity = withRequired(newest.Spec.Affinity, set.Spec.Template.Spec.Affinity)
	}
	return Daemon{
		Key:   PodKey{Namespace: set.Namespace, Name: set.Name},
		Shape: r.templateShape(set.Namespace, &template, defaults, claims),
	}
}

// withRequired returns pod affinity with the required node affinity of another.
func withRequired(pod, template *corev1.Affinity) *corev1.Affinity {
	var merged corev1.Affinity
	if pod != nil {
		merged = *pod
	}
	var node corev1.NodeAffinity
	if merged.NodeAffinity != nil {
		node = *merged.NodeAffinity
	}
	node.RequiredDuringSchedulingIgnoredDuringExecution = nil
	if template != nil && template.NodeAffinity != nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = template.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	merged.NodeAffinity = &node
	return &merged
}

// input is what a shape is read from.
type input struct {
	pod      *corev1.Pod
	vols     VolumeLookup
	template bool // of a DaemonSet

	requests resources.Vec
	claims   []claimFacts
	spread   Selector // of the default constraints
	extended string   // key of the ResourceClaim for its extended resources
	examples []string // ResourceClaims of one pod of a DaemonSet: each of its pods has such (DR-14)
}

// shape finds the shape of a pod, or builds it.
func (r *Reader) shape(in input) *Shape {
	in.requests = r.requests(in.pod)
	if len(r.opts.Extended) > 0 && !in.template {
		in.extended = r.claimOfResources(in.pod, &in.requests)
	}
	in.claims = r.resolve(in)
	if len(r.opts.DefaultSpread) > 0 && r.opts.SelectorOf != nil && len(in.pod.Spec.TopologySpreadConstraints) == 0 && !in.template {
		in.spread = r.opts.SelectorOf(in.pod)
	}
	d := &r.digest
	who, required := r.identity(in), r.constraintsOf(in)
	d.buf = d.buf[:0]
	d.number(who.number)
	d.number(required.number)
	d.lanes(in.requests, r.table)
	if known, found := r.shapes[string(d.buf)]; found {
		return known
	}
	place := string(d.buf)
	s := required.shape
	if s.Key != "" {
		s = new(Shape)
		*s = *required.shape
	}
	s.Namespace, s.Labels, s.Requests = who.namespace, who.labels, in.requests
	s.Key = r.shapeKey(who, in.requests, required)
	r.shapes[place] = s
	return s
}

// identity is who a pod is to the selectors of others.
type identity struct {
	number    int64
	namespace string
	labels    map[string]string
	text      string // beginning of the key of a shape
}

// identity finds that of a pod, or keeps it.
func (r *Reader) identity(in input) *identity {
	d := &r.digest
	d.buf = d.buf[:0]
	d.text(in.pod.Namespace)
	d.labels(in.pod.Labels, r.opts.KeepLabel)
	if known, found := r.identities[string(d.buf)]; found {
		return known
	}
	who := &identity{number: int64(len(r.identities)), namespace: in.pod.Namespace}
	r.identities[string(d.buf)] = who
	if len(d.sorted) > 0 {
		who.labels = make(map[string]string, len(d.sorted))
		for _, l := range d.sorted {
			who.labels[l.key] = l.value
		}
	}
	who.text = r.identityKey(who.namespace, d.sorted)
	return who
}

// constraints are the scheduling constraints and preferences of a pod, without its resource requests.
type constraints struct {
	number int64
	shape  *Shape // the first that has them; until then it has nothing else
	text   string // end of the key of a shape
}

// constraintsOf returns the interned constraints of a pod, and builds them if they are new.
func (r *Reader) constraintsOf(in input) *constraints {
	r.digest.buf = r.digest.buf[:0]
	r.writeConstraints(in)
	if known, found := r.constraints[string(r.digest.buf)]; found {
		return known
	}
	raw := string(r.digest.buf)
	built := r.build(in)
	if known, found := r.meanings[built.text]; found {
		built = known
	} else {
		built.number = int64(len(r.meanings))
		r.meanings[built.text] = built
	}
	r.constraints[raw] = built
	return built
}

// requests returns what a pod requests. Names that the table does not know show in one lane, which is
// empty for almost every pod: only then is the table extended.
func (r *Reader) requests(p *corev1.Pod) resources.Vec {
	v := r.table.PodRequests(p)
	if v.At(resources.Unknown) != 0 {
		r.table = r.table.Extend(resources.PodNames(p)...)
		v = r.table.PodRequests(p)
	}
	// The API allows no negative request; one would make room on a node.
	resources.MaxTo(&v, &resources.Vec{})
	return v
}

// capacity reads what a node or pool offers. Names are learned here, not from the pods that request
// them: those may be read later.
func (r *Reader) capacity(list corev1.ResourceList) resources.Vec {
	// any order: learn looks at all of them
	for name := range list {
		if _, known := r.table.Lane(name); !known {
			r.addLanes(list)
			break
		}
	}
	v := r.table.Capacity(list)
	resources.MaxTo(&v, &resources.Vec{}) // never below zero
	return v
}

// addLanes gives lanes to the names of what there is some of. Nodes report zero of many things.
func (r *Reader) addLanes(list corev1.ResourceList) {
	var names []corev1.ResourceName
	// any order: Extend sorts them
	for name, quantity := range list {
		if !quantity.IsZero() {
			names = append(names, name)
		}
	}
	r.table = r.table.Extend(names...)
}

// CompleteRequests does to a template what the API server does to pods: a limit without a request is
// the request, and only then LimitRanges say what else a container requests. The lists given are not changed.
func CompleteRequests(spec *corev1.PodSpec, defaults corev1.ResourceList) {
	requested := map[corev1.ResourceName]bool{}
	for _, containers := range []*[]corev1.Container{&spec.Containers, &spec.InitContainers} {
		*containers = append([]corev1.Container(nil), *containers...)
		for i := range *containers {
			c := &(*containers)[i]
			c.Resources.Requests = completed(c.Resources.Requests, c.Resources.Limits, nil)
			for name := range c.Resources.Requests {
				requested[name] = true
			}
			c.Resources.Requests = completed(c.Resources.Requests, defaults, nil)
		}
	}
	if level := spec.Resources; level != nil {
		// A pod-level limit is a request only for what no container requests.
		spec.Resources = &corev1.ResourceRequirements{Requests: completed(level.Requests, level.Limits, requested)}
	}
}

// completed returns a list with what another has and it has not, apart from some names.
func completed(list, other corev1.ResourceList, except map[corev1.ResourceName]bool) corev1.ResourceList {
	if len(other) == 0 {
		return list
	}
	all := make(corev1.ResourceList, len(other))
	for name, quantity := range other {
		if !except[name] {
			all[name] = quantity
		}
	}
	maps.Copy(all, list)
	return all
}
