package controller

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// relogInterval is when the log repeats why a pod has no place. Plans are made every few seconds as long as
// a pod waits, and would bury everything else.
const relogInterval = 5 * time.Minute

// loggedReason is what the log said last about a pod, and when.
type loggedReason struct {
	text string
	at   time.Time
}

// logOnce logs why a pod gets no node, unless it was said a moment ago, and returns what to remember.
func (p *Provisioner) logOnce(ctx context.Context, last map[cluster.PodKey]loggedReason, message string, key cluster.PodKey, text string) loggedReason {
	before, known := last[key]
	if now := p.Now(); !known || before.text != text || now.Sub(before.at) >= relogInterval {
		log.FromContext(ctx).Error(errors.New(text), message, "Pod", klog.KRef(key.Namespace, key.Name))
		return loggedReason{text, now}
	}
	return before
}

// allSeenBefore reports whether every pod was found by the pass before too: that they still wait is no news.
func (p *Provisioner) allSeenBefore(pods []cluster.Pod) bool {
	before, all := p.lastPods, true
	p.lastPods = make(map[cluster.PodKey]bool, len(pods))
	for i := range pods {
		all = all && before[pods[i].Key]
		p.lastPods[pods[i].Key] = true
	}
	return all
}
