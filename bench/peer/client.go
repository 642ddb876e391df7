package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// cachedClient stands in for the informer-backed client upstream runs with: reads come from memory, pods are
// indexed by spec.nodeName, and what is read is deep-copied unless the caller says otherwise. (controller-runtime's
// fake client scans and re-encodes every object on each list, which would charge upstream for the test double.)
// Anything not implemented here panics on the embedded nil interface.
type cachedClient struct {
	client.Client
	pods       []*corev1.Pod
	podsByNode map[string][]*corev1.Pod
	nodes      map[string]*corev1.Node
	nodePools  []*v1.NodePool
	nodeClaims map[string]*v1.NodeClaim
	daemonSets []*appsv1.DaemonSet
	// budgetLists counts how often PodDisruptionBudgets were listed: once a scheduling simulation of a consolidation.
	budgetLists int
}

func newCachedClient() *cachedClient {
	return &cachedClient{
		podsByNode: map[string][]*corev1.Pod{},
		nodes:      map[string]*corev1.Node{},
		nodeClaims: map[string]*v1.NodeClaim{},
	}
}

func (c *cachedClient) addPod(p *corev1.Pod) {
	c.pods = append(c.pods, p)
	c.podsByNode[p.Spec.NodeName] = append(c.podsByNode[p.Spec.NodeName], p)
}

func (c *cachedClient) movePod(p *corev1.Pod, node string) {
	c.podsByNode[p.Spec.NodeName] = slices.DeleteFunc(c.podsByNode[p.Spec.NodeName], func(other *corev1.Pod) bool { return other == p })
	p.Spec.NodeName = node
	c.podsByNode[node] = append(c.podsByNode[node], p)
}

func (c *cachedClient) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch out := obj.(type) {
	case *corev1.Node:
		if n, ok := c.nodes[key.Name]; ok {
			n.DeepCopyInto(out)
			return nil
		}
	case *v1.NodeClaim:
		if n, ok := c.nodeClaims[key.Name]; ok {
			n.DeepCopyInto(out)
			return nil
		}
	case *v1.NodePool:
		if i := slices.IndexFunc(c.nodePools, func(n *v1.NodePool) bool { return n.Name == key.Name }); i >= 0 {
			c.nodePools[i].DeepCopyInto(out)
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", obj)}, key.Name)
}

func (c *cachedClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	deepCopy := o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy
	switch out := list.(type) {
	case *corev1.PodList:
		from := c.pods
		if o.FieldSelector != nil {
			node, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName")
			if !ok {
				return fmt.Errorf("no index for %s", o.FieldSelector)
			}
			from = c.podsByNode[node]
		}
		out.Items = nil
		for _, p := range from {
			if o.Namespace != "" && p.Namespace != o.Namespace || !matches(&o, p) {
				continue
			}
			if deepCopy {
				p = p.DeepCopy()
			}
			out.Items = append(out.Items, *p)
		}
	case *corev1.NodeList:
		out.Items = copies(maps.Values(c.nodes), (*corev1.Node).DeepCopy)
	case *v1.NodeClaimList:
		out.Items = copies(maps.Values(c.nodeClaims), (*v1.NodeClaim).DeepCopy)
	case *v1.NodePoolList:
		out.Items = copies(slices.Values(c.nodePools), (*v1.NodePool).DeepCopy)
	case *appsv1.DaemonSetList:
		out.Items = copies(slices.Values(c.daemonSets), (*appsv1.DaemonSet).DeepCopy)
	case *policyv1.PodDisruptionBudgetList:
		c.budgetLists++
	default:
		// the scenario has none of the other kinds
	}
	return nil
}

func copies[T any](from iter.Seq[*T], deepCopy func(*T) *T) []T {
	var list []T
	for item := range from {
		list = append(list, *deepCopy(item))
	}
	return list
}

func matches(o *client.ListOptions, p *corev1.Pod) bool {
	return o.LabelSelector == nil || o.LabelSelector.Matches(labelSet(p.Labels))
}

// labelSet is labels.Set without the conversion.
type labelSet map[string]string

func (s labelSet) Has(k string) bool              { _, ok := s[k]; return ok }
func (s labelSet) Get(k string) string            { return s[k] }
func (s labelSet) Lookup(k string) (string, bool) { v, ok := s[k]; return v, ok }
