package bench

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
)

// heapOwners decide by the functions of a stack who allocated. The first one that matches counts: the code of
// a part is below or above what it shares with others, such as client-go.
func heapOwners() []struct{ part, prefix string } {
	const ours = "github.com/dovetail-sh/dovetail/sandbox/"
	return []struct{ part, prefix string }{
		{"awsemu", ours + "awsemu"},
		{"fakenode", ours + "fakenode"},
		{"bench", ours + "bench"},
		{"etcd", "go.etcd.io/etcd/server/"},
		{"etcd", "go.etcd.io/bbolt"},
		{"etcd", "go.etcd.io/raft/"},
		{"kube-scheduler", "k8s.io/kubernetes/pkg/scheduler"},
		{"kube-controller-manager", "k8s.io/kubernetes/pkg/controller/"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kube-apiserver", "k8s.io/apiserver/"},
		{"kube-apiserver", "k8s.io/kubernetes/pkg/registry"},
		{"kube-apiserver", "k8s.io/kubernetes/pkg/controlplane"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-apiserver", "k8s.io/kube-aggregator/"},
		{"kube-apiserver", "k8s.io/apiextensions-apiserver/"},
		{clientCaches, "k8s.io/client-go/"},
	}
}

const (
	clientCaches = "caches of clients" // of controllers, scheduler, kubelets and bench: they share the code
	otherHeap    = "other"
	heapInUseNow = 3 // of a heap profile: the others are objects and bytes allocated, and objects in use
)

// liveHeap splits what is on the heap after a collection by who allocated it.
func liveHeap() (map[string]int64, error) {
	runtime.GC() // the profile shows what the last collection left
	var text bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&text, 0); err != nil {
		return nil, err
	}
	p, err := readProfile(text.Bytes())
	if err != nil {
		return nil, err
	}
	who, out := heapOwners(), map[string]int64{}
	for _, s := range p.samples {
		if len(s.values) <= heapInUseNow {
			return nil, errProfile
		}
		part, best := otherHeap, len(who)
		p.walkStack(s, func(function string) {
			for n := range who[:best] {
				if strings.HasPrefix(function, who[n].prefix) {
					part, best = who[n].part, n
					return
				}
			}
		})
		out[part] += int64(s.values[heapInUseNow])
	}
	return out, nil
}
