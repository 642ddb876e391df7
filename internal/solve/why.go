package solve

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

func shapeless(key cluster.PodKey) Unplaced {
	return Unplaced{Pod: key, Why: []reason.Reason{{Code: "PodUnreadable", Subject: "pod/" + key.String()}}}
}

func (s *state) cutShort(_ *bin, pods []cluster.PodKey) []Unplaced {
	var list []Unplaced
	for _, p := range pods {
		list = append(list, Unplaced{Pod: p, Why: []reason.Reason{{Code: reason.MinValuesUnmet}}})
	}
	return list
}

func (s *state) unplaced(k int, pods []int32) []Unplaced {
	var list []Unplaced
	_ = k
	for _, p := range pods {
		list = append(list, Unplaced{Pod: s.m.pods[p].Key, Why: []reason.Reason{{Code: "NoPlace"}}})
	}
	return list
}
