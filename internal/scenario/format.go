package scenario

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Scenario is the file. Nothing in it is particular to one tool.
type Scenario struct {
	Name          string                             `json:"name"`
	Description   string                             `json:"description,omitempty"`
	InstanceTypes []InstanceType                     `json:"instanceTypes"`
	NodePools     []*karpv1.NodePool                 `json:"nodePools"`
	DaemonSets    []DaemonSet                        `json:"daemonSets"`
	Templates     map[string]*corev1.PodTemplateSpec `json:"templates,omitempty"`
	Nodes         []Node                             `json:"nodes"`
	Pods          []PodGroup                         `json:"pods"`
}

// InstanceType is one kind of machine. Allocatable is capacity less overhead.
type InstanceType struct {
	Name      string              `json:"name"`
	Arch      string              `json:"arch"`
	OS        []string            `json:"os"`
	Capacity  corev1.ResourceList `json:"capacity"`
	Overhead  corev1.ResourceList `json:"overhead,omitempty"`
	Labels    map[string]string   `json:"labels,omitempty"`
	Offerings []Offering          `json:"offerings"`
}

// Offering is one way to launch an instance type.
type Offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"` // USD an hour
	Available    bool    `json:"available"`
}

// DaemonSet takes room on every node that its pods tolerate and select; the pods are listed nowhere.
type DaemonSet struct {
	Name     string                  `json:"name"`
	Template *corev1.PodTemplateSpec `json:"template"`
}

// Node is there already: registered, initialized, ready, an hour old.
type Node struct {
	Name         string              `json:"name"`
	NodePool     string              `json:"nodePool,omitempty"`
	InstanceType string              `json:"instanceType,omitempty"`
	Zone         string              `json:"zone,omitempty"`
	CapacityType string              `json:"capacityType,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Annotations  map[string]string   `json:"annotations,omitempty"`
	Taints       []corev1.Taint      `json:"taints,omitempty"`
	Capacity     corev1.ResourceList `json:"capacity,omitempty"`    // the type's unless given
	Allocatable  corev1.ResourceList `json:"allocatable,omitempty"` // the same
	Pods         []PodGroup          `json:"pods"`
}

// PodGroup is count copies of a template, which is written out or named.
type PodGroup struct {
	Count       *int                    `json:"count"` // a pointer, so that leaving it out is noticed
	Template    *corev1.PodTemplateSpec `json:"template,omitempty"`
	TemplateRef string                  `json:"templateRef,omitempty"`
}

// copies is how many pods a group stands for.
func (g *PodGroup) copies() int {
	if g.Count == nil {
		return 0
	}
	return *g.Count
}

// Waiting is how many pods are pending.
func (s *Scenario) Waiting() int {
	total := 0
	for i := range s.Pods {
		total += s.Pods[i].copies()
	}
	return total
}
