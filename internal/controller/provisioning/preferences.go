package provisioning

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	preferenceWarningInterval = 24 * time.Hour
	maxPreferenceWarnings     = 50_000 // entries; when full, the cache is cleared and pods may be named again
)

// preferenceWarnings caches which pods were named in a warning about preferences.
type preferenceWarnings struct {
	mu     sync.Mutex
	warned map[string]time.Time // by UID
}

// notWarned returns the pods that match and were not named in a warning for a day (scheduling 3.4).
func (w *preferenceWarnings) notWarned(pods []cluster.Pod, now time.Time, certain func(*cluster.Shape) bool) []cluster.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []cluster.Pod
	for i := range pods {
		p := &pods[i]
		if !certain(p.Shape) || now.Sub(w.warned[p.UID]) < preferenceWarningInterval {
			continue
		}
		if w.warned == nil || len(w.warned) >= maxPreferenceWarnings {
			w.warned = map[string]time.Time{}
		}
		w.warned[p.UID] = now
		out = append(out, *p)
	}
	return out
}

// prefersApart reports whether a pod has preferred anti-affinity or a ScheduleAnyway spread.
func prefersApart(s *cluster.Shape) bool {
	for i := range s.Spread {
		if s.Spread[i].Soft {
			return true
		}
	}
	for i := range s.AntiAffinity {
		if s.AntiAffinity[i].Weight > 0 {
			return true
		}
	}
	return false
}

// warnOfPreferences logs once a day which pods can keep nodes from being consolidated.
func (p *Provisioner) warnOfPreferences(ctx context.Context, pods []cluster.Pod) {
	if p.Policy.IgnorePreferences {
		return
	}
	if named := p.warnedPreferences.notWarned(pods, p.Now(), prefersApart); len(named) > 0 {
		log.FromContext(ctx).Error(nil, "pod(s) have preferred anti-affinity or ScheduleAnyway spreads, which can keep nodes from being consolidated; "+
			"set --preference-policy=Ignore, or make them required or drop them", "Pods", firstPods(named))
	}
}

// reportIgnoredPreferences emits an event once a day on pods with more preferences than are evaluated.
func (p *Provisioner) reportIgnoredPreferences(pods []cluster.Pod) {
	for _, pod := range p.warnedIgnored.notWarned(pods, p.Now(), func(s *cluster.Shape) bool { return len(s.Ignored) > 0 }) {
		p.emitPodEvent(pod.Key, event.Event{Reason: event.DefaultAssumed, Text: reason.Join(pod.Shape.Ignored, 0)})
	}
}
