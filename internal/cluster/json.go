package cluster

import "encoding/json"

// UnmarshalJSON reads a recorded Snapshot. Pods that shared a shape share one again.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	type plain Snapshot
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	s.Intern()
	return nil
}

// Intern gives pods with equal shapes the same *Shape, in the Snapshot and in further lists of pods,
// such as those of a Problem that was decoded together with it. It is for values that no other goroutine has
// seen yet.
func (s *Snapshot) Intern(lists ...[]Pod) {
	known := map[string]*Shape{}
	share := func(place **Shape) {
		if *place == nil {
			return
		}
		if first, found := known[(*place).Key]; found {
			*place = first
		} else {
			known[(*place).Key] = *place
		}
	}
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			share(&s.Nodes[i].Pods[j].Shape)
		}
	}
	for i := range s.Daemons {
		share(&s.Daemons[i].Shape)
	}
	for _, list := range append(lists, s.Pending) {
		for i := range list {
			share(&list[i].Shape)
		}
	}
}
