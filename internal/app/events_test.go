package app

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// slowSink is an API server that takes its time.
type slowSink struct {
	mu   sync.Mutex
	said map[string][]string // by object
}

func (s *slowSink) Create(e *corev1.Event) (*corev1.Event, error) {
	time.Sleep(100 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[e.InvolvedObject.Name] = append(s.said[e.InvolvedObject.Name], e.Message)
	return e, nil
}
func (s *slowSink) Update(e *corev1.Event) (*corev1.Event, error)          { return e, nil }
func (s *slowSink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { return e, nil }

// S-102: a slow API server does not make events of many objects wait for each other, and those of one
// object stay in order.
func TestEventsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{said: map[string][]string{}}
		events := recordTo(t.Context(), sink, clientgoscheme.Scheme)
		const objects, each = 100, 4
		for n := range each {
			for i := range objects {
				events.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", i)}}, nil, "Normal", fmt.Sprintf("R%d", n), "", "%d", n)
			}
		}
		began := time.Now()
		for {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			sink.mu.Lock()
			total := 0
			for _, list := range sink.said {
				total += len(list)
			}
			sink.mu.Unlock()
			if total == objects*each {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%d of %d events after a minute", total, objects*each)
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d events took %s, one after the other 40 s", objects*each, took)
		}
		for name, list := range sink.said {
			if !slices.IsSorted(list) {
				t.Errorf("%s: %s", name, strings.Join(list, ", "))
			}
		}
	})
}
