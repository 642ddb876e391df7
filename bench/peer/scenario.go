package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The types here are docs/reference/scenario.md in Go, with the NodePool of the tool that is measured.

type Scenario struct {
	Name          string                            `json:"name"`
	InstanceTypes []InstanceType                    `json:"instanceTypes"`
	NodePools     []*v1.NodePool                    `json:"nodePools"`
	DaemonSets    []DaemonSet                       `json:"daemonSets"`
	Templates     map[string]corev1.PodTemplateSpec `json:"templates"`
	Nodes         []Node                            `json:"nodes"`
	Pods          []PodGroup                        `json:"pods"`
}

type InstanceType struct {
	Name      string              `json:"name"`
	Arch      string              `json:"arch"`
	OS        []string            `json:"os"`
	Capacity  corev1.ResourceList `json:"capacity"`
	Overhead  corev1.ResourceList `json:"overhead"`
	Labels    map[string]string   `json:"labels"`
	Offerings []Offering          `json:"offerings"`
}

type Offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
	Available    bool    `json:"available"`
}

type DaemonSet struct {
	Name     string                 `json:"name"`
	Template corev1.PodTemplateSpec `json:"template"`
}

type Node struct {
	Name         string              `json:"name"`
	NodePool     string              `json:"nodePool"`
	InstanceType string              `json:"instanceType"`
	Zone         string              `json:"zone"`
	CapacityType string              `json:"capacityType"`
	Labels       map[string]string   `json:"labels"`
	Annotations  map[string]string   `json:"annotations"`
	Taints       []corev1.Taint      `json:"taints"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Allocatable  corev1.ResourceList `json:"allocatable"`
	Pods         []PodGroup          `json:"pods"`
}

type PodGroup struct {
	Count       int                     `json:"count"`
	Template    *corev1.PodTemplateSpec `json:"template"`
	TemplateRef string                  `json:"templateRef"`
}

func loadScenario(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Scenario{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *Scenario) template(g PodGroup) (*corev1.PodTemplateSpec, error) {
	if g.Template != nil {
		return g.Template, nil
	}
	t, ok := s.Templates[g.TemplateRef]
	if !ok {
		return nil, fmt.Errorf("no template %q", g.TemplateRef)
	}
	return &t, nil
}
