package fakenode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// m5LargeCapacity is an m5.large.
func m5LargeCapacity() corev1.ResourceList {
	return list("cpu", "2", "memory", "8Gi", "pods", "29", "ephemeral-storage", "20Gi")
}

func TestReservedMilliCPU(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int64]int64{0: 0, 1: 60, 2: 70, 4: 80, 8: 90, 96: 310} {
		if got := reservedMilliCPU(cores); got != want {
			t.Errorf("%d cores reserve %dm, want %dm", cores, got, want)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machine                   corev1.ResourceList
		config                    Config
		loss                      float64
		wantCapacity, wantAllowed corev1.ResourceList
	}{
		"defaults": {
			// memory: 8192 - (11*29+255) - 100 MiB; storage: 20Gi - 1Gi - 2Gi
			machine: m5LargeCapacity(), config: Config{Family: AL2023},
			wantCapacity: m5LargeCapacity(),
			wantAllowed:  list("cpu", "1930m", "memory", "7518Mi", "pods", "29", "ephemeral-storage", "17Gi"),
		},
		"memory that the machine keeps, in whole Ki": {
			machine: m5LargeCapacity(), config: Config{Family: AL2023}, loss: 0.02,
			wantCapacity: list("cpu", "2", "memory", "8220835Ki", "pods", "29", "ephemeral-storage", "20Gi"),
			wantAllowed:  list("cpu", "1930m", "memory", "7530659Ki", "pods", "29", "ephemeral-storage", "17Gi"),
		},
		"AL2023 reserves for the pods of the interfaces": {
			machine: m5LargeCapacity(), config: Config{Family: AL2023, MaxPods: 110},
			wantCapacity: list("cpu", "2", "memory", "8Gi", "pods", "110", "ephemeral-storage", "20Gi"),
			wantAllowed:  list("cpu", "1930m", "memory", "7518Mi", "pods", "110", "ephemeral-storage", "17Gi"),
		},
		"Bottlerocket for those it takes": {
			machine: m5LargeCapacity(), config: Config{Family: Bottlerocket, MaxPods: 110},
			wantCapacity: list("cpu", "2", "memory", "8Gi", "pods", "110", "ephemeral-storage", "20Gi"),
			wantAllowed:  list("cpu", "1930m", "memory", "6627Mi", "pods", "110", "ephemeral-storage", "17Gi"),
		},
		"Windows takes 110, unless by core": {
			machine: m5LargeCapacity(), config: Config{Family: Windows, PodsPerCore: 10},
			wantCapacity: list("cpu", "2", "memory", "8Gi", "pods", "20", "ephemeral-storage", "20Gi"),
			wantAllowed:  list("cpu", "1930m", "memory", "7617Mi", "pods", "20", "ephemeral-storage", "17Gi"),
		},
		"reservations replace by key": {
			machine: m5LargeCapacity(),
			config: Config{
				Family: AL2, KubeReserved: map[string]string{"cpu": "500m"},
				SystemReserved: map[string]string{"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
				EvictionHard:   map[string]string{"memory.available": "50%", "nodefs.available": "100%"},
			},
			wantCapacity: m5LargeCapacity(),
			wantAllowed:  list("cpu", "1400m", "memory", "2498Mi", "pods", "29", "ephemeral-storage", "18Gi"),
		},
		"never below nothing": {
			machine: m5LargeCapacity(), config: Config{Family: AL2, KubeReserved: map[string]string{"cpu": "3", "memory": "9Gi", "ephemeral-storage": "1Ti"}},
			wantCapacity: m5LargeCapacity(),
			wantAllowed:  list("cpu", "0", "memory", "0", "pods", "29", "ephemeral-storage", "0"),
		},
		"extended resources pass, zeroes do not": {
			machine: list("cpu", "4", "pods", "8", "nvidia.com/gpu", "1", "amd.com/gpu", "0"), config: Config{Family: AL2023},
			wantCapacity: list("cpu", "4", "pods", "8", "nvidia.com/gpu", "1"),
			wantAllowed:  list("cpu", "3920m", "pods", "8", "nvidia.com/gpu", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			capacity := Capacity(tc.machine, tc.config, tc.loss)
			if !equality.Semantic.DeepEqual(capacity, tc.wantCapacity) {
				t.Errorf("capacity\n got %v\nwant %v", resourceTexts(capacity), resourceTexts(tc.wantCapacity))
			}
			if got := Allocatable(tc.machine, capacity, tc.config); !equality.Semantic.DeepEqual(got, tc.wantAllowed) {
				t.Errorf("allocatable\n got %v\nwant %v", resourceTexts(got), resourceTexts(tc.wantAllowed))
			}
		})
	}
}

func resourceTexts(l corev1.ResourceList) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{}
	for name, q := range l {
		out[name] = q.String()
	}
	return out
}
