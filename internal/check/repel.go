package check

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// standing is a pod and where it is placed.
type standing struct {
	pod   *cluster.Pod
	at    *place
	comes bool
}

// crowd finds the pods that may be in a domain.
type crowd struct {
	in  map[string][]standing
	any []standing // may be where cannot be listed
	all []standing // that may be in some domain
}

// antiAffinities verifies required anti-affinity in both directions: of the pods that are placed (SC-34), and of all
// pods against those that are placed (SC-35). Two pods are too close if their nodes have a possible domain in common:
// every domain that a node could still be launched in counts. Two pods that were running before are not the plan's
// responsibility. On a node without the label, no pods are close to each other.
func (c *checker) antiAffinities() {
	crowds := map[string]*crowd{}
	told := map[[2]*cluster.Pod]bool{}
	for _, at := range c.places {
		for _, holder := range c.standing(at) {
			shape := shapeOf(holder.pod.Shape)
			for i := range shape.AntiAffinity {
				t := &shape.AntiAffinity[i]
				if t.Weight != 0 {
					continue
				}
				key := c.view.Words.Canonical(t.Key)
				if crowds[key] == nil {
					crowds[key] = c.crowd(key)
				}
				for _, other := range crowds[key].near(at.spot(key)) {
					if other.pod == holder.pod || !other.comes && !holder.comes || !chooses(t, other.pod) ||
						told[[2]*cluster.Pod{other.pod, holder.pod}] || told[[2]*cluster.Pod{holder.pod, other.pod}] {
						continue
					}
					told[[2]*cluster.Pod{holder.pod, other.pod}] = true
					c.tooClose(holder, other, key)
				}
			}
		}
	}
}

func (c *checker) tooClose(holder, other standing, key string) {
	rule, comes, there := "SC-34", holder, other
	if !holder.comes {
		rule, comes, there = "SC-35", other, holder
	}
	c.add(AntiAffinityUnmet, rule, "pod/"+comes.pod.Key.String(), "another "+key+" than pod/"+there.pod.Key.String(),
		comes.at.name+" "+comes.at.spot(key).String()+" and "+there.at.name+" "+there.at.spot(key).String())
}

// standing returns the pods at a place that topology rules count.
func (c *checker) standing(at *place) []standing {
	all := make([]standing, 0, len(at.stay)+len(at.come))
	for _, p := range at.stay {
		if !p.Terminating {
			all = append(all, standing{pod: p, at: at})
		}
	}
	for _, p := range at.come {
		all = append(all, standing{pod: p, at: at, comes: true})
	}
	return all
}

func (c *checker) crowd(key string) *crowd {
	w := &crowd{in: map[string][]standing{}}
	for _, at := range c.places {
		s := at.spot(key)
		if s.nowhere() {
			continue
		}
		here := c.standing(at)
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

// near are the pods that may share a domain with a node.
func (w *crowd) near(s spot) []standing {
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
