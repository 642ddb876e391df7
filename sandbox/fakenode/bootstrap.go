package fakenode

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// StaticNode is a node with no instance behind it: it is there from the start and stays.
type StaticNode struct {
	Instance Instance
	Config   Config
}

// Bootstrap is a group of n on-demand nodes, spread over the zones of a region, that stands for those
// the autoscaler runs on and does not manage: they take only pods that tolerate CriticalAddonsOnly.
func Bootstrap(n int, region string, zones ...string) []StaticNode {
	if len(zones) == 0 {
		zones = []string{region + "a", region + "b"}
	}
	var nodes []StaticNode
	for i := range n {
		ip := fmt.Sprintf("192.168.255.%d", 10+i%240)
		nodes = append(nodes, StaticNode{
			Instance: Instance{
				ID: fmt.Sprintf("i-0b00757249%07x", i+1), Type: "t3.medium", Zone: zones[i%len(zones)], Region: region,
				PrivateDNS: fmt.Sprintf("bootstrap-%d.%s.compute.internal", i+1, region), PrivateIP: ip,
				Architecture: "x86_64", CapacityType: "on-demand", State: stateRunning, Running: time.Unix(0, 0),
				Capacity: corev1.ResourceList{
					corev1.ResourceCPU:              *resource.NewQuantity(2, resource.DecimalSI),
					corev1.ResourceMemory:           *resource.NewQuantity(4*gibi, resource.BinarySI),
					corev1.ResourcePods:             *resource.NewQuantity(17, resource.DecimalSI),
					corev1.ResourceEphemeralStorage: *resource.NewQuantity(20*gibi, resource.BinarySI),
				},
			},
			Config: Config{
				Family: AL2023,
				Labels: map[string]string{
					"eks.amazonaws.com/nodegroup":    "bootstrap",
					"eks.amazonaws.com/capacityType": "ON_DEMAND",
				},
				Taints: []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			},
		})
	}
	return nodes
}
