package check

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// countedPod is a pod and where it is placed.
type countedPod struct {
	pod   *cluster.Pod
	at    *place
	comes bool
}

// podsByDomain finds the pods that may be in a domain.
type podsByDomain struct {
	in  map[string][]countedPod
	any []countedPod // may be where cannot be listed
	all []countedPod // that may be in some domain
}

// antiAffinities verifies required anti-affinity in both directions: of the pods that are placed (SC-34), and of all
// pods against those that are placed (SC-35). Two pods are too close if their nodes have a possible domain in common:
// every domain that a node could still be launched in counts. Two pods that were running before are not the plan's
// responsibility. On a node without the label, no pods are close to each other.
func (c *checker) antiAffinities() {
	crowds := map[string]*podsByDomain{}
	reported := map[[2]*cluster.Pod]bool{}
	for _, at := range c.places {
		for _, holder := range c.countedPods(at) {
			shape := shapeOf(holder.pod.Shape)
			for i := range shape.AntiAffinity {
				t := &shape.AntiAffinity[i]
				if t.Weight != 0 {
					continue
				}
				key := c.view.Words.Canonical(t.Key)
				if crowds[key] == nil {
					crowds[key] = c.podsForKey(key)
				}
				for _, other := range crowds[key].podsInReach(at.domainOf(key)) {
					if other.pod == holder.pod || !other.comes && !holder.comes || !termSelects(t, other.pod) ||
						reported[[2]*cluster.Pod{other.pod, holder.pod}] || reported[[2]*cluster.Pod{holder.pod, other.pod}] {
						continue
					}
					reported[[2]*cluster.Pod{holder.pod, other.pod}] = true
					c.tooClose(holder, other, key)
				}
			}
		}
	}
}

func (c *checker) tooClose(holder, other countedPod, key string) {
	rule, comes, there := "SC-34", holder, other
	if !holder.comes {
		rule, comes, there = "SC-35", other, holder
	}
	c.add(AntiAffinityUnmet, rule, "pod/"+comes.pod.Key.String(), "another "+key+" than pod/"+there.pod.Key.String(),
		comes.at.name+" "+comes.at.domainOf(key).String()+" and "+there.at.name+" "+there.at.domainOf(key).String())
}

// countedPods returns the pods at a place that topology rules count.
func (c *checker) countedPods(at *place) []countedPod {
	all := make([]countedPod, 0, len(at.stay)+len(at.come))
	for _, p := range at.stay {
		if !p.Terminating {
			all = append(all, countedPod{pod: p, at: at})
		}
	}
	for _, p := range at.come {
		all = append(all, countedPod{pod: p, at: at, comes: true})
	}
	return all
}

func (c *checker) podsForKey(key string) *podsByDomain {
	w := &podsByDomain{in: map[string][]countedPod{}}
	for _, at := range c.places {
		s := at.domainOf(key)
		if s.isEmpty() {
			continue
		}
		here := c.countedPods(at)
		w.all = append(w.all, here...)
		if s.open {
			w.any = append(w.any, here...)
		}
		for _, d := range s.values {
			w.in[d] = append(w.in[d], here...)
		}
	}
	return w
}

// podsInReach are the pods that may share a domain with a node.
func (w *podsByDomain) podsInReach(s nodeDomain) []countedPod {
	if s.open {
		return w.all
	}
	if len(s.values) == 0 {
		return nil
	}
	near := slices.Clone(w.any)
	for _, d := range s.values {
		near = append(near, w.in[d]...)
	}
	return near
}
