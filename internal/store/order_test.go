package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// alwaysSay gets a text from stores with the same contents, so often that the order in which they range over
// their maps would show in it.
func alwaysSay(t *testing.T, want string, query func() string) {
	t.Helper()
	for range 50 {
		if got := query(); got != want {
			t.Fatalf("a store with the same contents says\n%s\nwant\n%s", got, want)
		}
	}
}

// The lanes of resources are numbered in the order in which they are met. Of several that a node lacks the
// first is named, so the numbers must not depend on the order of a map.
func TestLanesAreInOrder(t *testing.T) {
	t.Parallel()
	letters := []string{"d", "b", "c", "a"}
	some := func(kind, letter string) corev1.ResourceList {
		list := amounts("1", "1Gi")
		list[corev1.ResourceName("example.com/"+kind+"-"+letter)] = resource.MustParse("1")
		delete(list, corev1.ResourcePods)
		return list
	}
	fill := func() *Store {
		s := New(testOptions())
		s.feedObject(poolObject("general"), false)
		for _, x := range letters {
			node, pod, running := nodeObject("ip-"+x, "aws:///a/i-"+x, false), podObject("w"+x, ""), podObject("r"+x, "ip-"+x)
			node.Status.Capacity, node.Status.Allocatable = some("node", x), some("node", x)
			pod.Spec.Containers[0].Resources.Requests = some("pod", x)
			running.Spec.Containers[0].Resources.Requests = some("running", x)
			s.feedObject(node, false)
			s.feedObject(pod, false)
			s.feedObject(running, false)
			s.feedObject(podObject("s"+x, "ip-"+x), false)
		}
		return s
	}
	want := "[example.com/node-a example.com/node-b example.com/node-c example.com/node-d" +
		" example.com/pod-a example.com/pod-b example.com/pod-c example.com/pod-d" +
		" example.com/running-a example.com/running-b example.com/running-c example.com/running-d]"
	alwaysSay(t, want, func() string { return laneNames(fill().Snapshot(testTypes()).Snapshot) })
	alwaysSay(t, want, func() string {
		s := fill()
		s.Reserve([]solve.NewNode{wanted("small")}, nil, 0) // reads the nodes too
		return laneNames(s.Snapshot(testTypes()).Snapshot)
	})
	s := fill()
	s.Snapshot(testTypes())
	later := podObject("later", "")
	later.Spec.Containers[0].Resources.Requests = some("a", "later")
	s.feedObject(later, false)
	alwaysSay(t, want[:len(want)-1]+" example.com/a-later]", func() string { return laneNames(s.Snapshot(testTypes()).Snapshot) })
}

// laneNames are the resources that a snapshot has lanes for besides the usual ones.
func laneNames(view *cluster.Snapshot) string {
	var names []string
	for lane := range view.Resources.Len() {
		if name := string(view.Resources.Name(lane)); len(name) > len("example.com/") && name[:len("example.com/")] == "example.com/" {
			names = append(names, name)
		}
	}
	return fmt.Sprint(names)
}

// Only so many pods get an event in one pass why nothing is planned for them: which ones is no matter of luck.
func TestIgnoredPodsAreInOrder(t *testing.T) {
	t.Parallel()
	alwaysSay(t, "[default/w1 default/w2 default/w3 default/w4]", func() string {
		s := New(testOptions())
		for _, name := range []string{"w3", "w1", "w4", "w2"} {
			pod := podObject(name, "")
			pod.Spec.NodeSelector = map[string]string{"-": "illegal"}
			s.feedObject(pod, false)
		}
		var names []string
		for _, p := range s.Snapshot(testTypes()).Ignored {
			names = append(names, p.Key.String())
		}
		return fmt.Sprint(names)
	})
}

// A claim of an earlier process that names a pod which another one names too does not get it by luck.
func TestRestoreReservesTheFirstClaim(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	alwaysSay(t, "map[default/w1:general-a]", func() string {
		s := New(testOptions())
		s.feedObject(poolObject("general"), false)
		for _, name := range []string{"general-c", "general-a", "general-b"} {
			s.feedObject(ordered(name, map[string]string{karpv1.AnnotationPods: cluster.HashPods([]cluster.PodKey{w1})}, "small"), false)
		}
		s.feedObject(podObject("w1", ""), false)
		return fmt.Sprint(s.Snapshot(testTypes()).PlannedNodes)
	})
}

// Of several claims that were ordered for a pod the first is named.
func TestReserveNamesTheFirstClaim(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	alwaysSay(t, "nodeclaim general-a was ordered for pod default/w1", func() string {
		s := limitedStore(100, 100)
		for _, name := range []string{"general-c", "general-a", "general-b"} {
			s.RecordCreatedClaim(ordered(name, nil, "small"), []cluster.PodKey{w1})
		}
		node := wanted("small")
		node.Pods = []cluster.PodKey{w1}
		refused, _ := s.Reserve([]solve.NewNode{node}, nil, 0)
		return refused[0].Error()
	})
}

// A node that two commands say they replace counts with the first of them: if it were either, a claim would
// be refused at random.
func TestReserveCountsWithTheFirstCommand(t *testing.T) {
	t.Parallel()
	// With the first command the pool can come to have 16 and 16 cores; with the second it would be 4 and 16.
	alwaysSay(t, "nodepool general: its limit 30 of cpu leaves no room for another node", func() string {
		s := limitedStore(30, 100)
		s.feedObject(ordered("general-old", nil, "large"), false)
		s.SetCommanded("general-old", true)
		s.feedObject(ordered("general-a", marksFor("one", "general-old"), "small"), false)
		s.feedObject(ordered("general-b", marksFor("two", "general-old"), "large"), false)
		refused, _ := s.Reserve([]solve.NewNode{wanted("small")}, nil, 0)
		return fmt.Sprint(refused[0])
	})
}

func TestUnseenClaimsAreInOrder(t *testing.T) {
	t.Parallel()
	alwaysSay(t, "[general-a general-b general-c general-d]", func() string {
		at, o := now(), testOptions()
		o.Now = func() time.Time { return at }
		s := New(o)
		for _, name := range []string{"general-c", "general-a", "general-d", "general-b"} {
			s.RecordCreatedClaim(claimObject(name, "", false), nil)
		}
		at = at.Add(unwatchedTimeout / 2)
		return fmt.Sprint(s.UnwatchedClaims())
	})
}

// Amounts that are written in different units add up to the same text: it ends up in the status of the pool.
func TestUsageIsWrittenInOneUnit(t *testing.T) {
	t.Parallel()
	alwaysSay(t, "cpu=3 hugepages-2Mi=4Mi memory=32500000Ki pods=220", func() string {
		s := New(testOptions())
		for i, memory := range []string{"16384000Ki", "16502784000"} {
			c := claimObject(fmt.Sprint("general-", i), fmt.Sprint("aws:///a/i-", i), true)
			c.Status.Capacity = amounts([]string{"1500m", "1.5"}[i], memory)
			c.Status.Capacity["hugepages-2Mi"] = resource.MustParse([]string{"2Mi", "2097152"}[i])
			s.feedObject(c, false)
		}
		used, _ := s.Usage("general")
		var texts []string
		for _, name := range resources.Names(used) {
			quantity := used[name]
			texts = append(texts, string(name)+"="+quantity.String())
		}
		return strings.Join(texts, " ")
	})
}

// Of several kinds that cannot be watched always the same is named.
func TestWatchNamesTheFirstKindThatFails(t *testing.T) {
	t.Parallel()
	alwaysSay(t, "watch *v1.NodePool: forbidden", func() string { return New(testOptions()).Watch(t.Context(), noInformers{}).Error() })
}

type noInformers struct{}

func (noInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errors.New("forbidden")
}
