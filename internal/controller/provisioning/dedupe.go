package provisioning

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// relogInterval is how often the log repeats why a pod cannot be scheduled. Plans are made every few seconds
// while a pod is pending, and would flood the log.
const relogInterval = 5 * time.Minute

// loggedReason is what was last logged about a pod, and when.
type loggedReason struct {
	text string
	at   time.Time
}

// logOnce logs why a pod gets no node, unless the same was logged recently. It returns the entry to keep for
// the next call.
func (p *Provisioner) logOnce(ctx context.Context, last map[cluster.PodKey]loggedReason, message string, key cluster.PodKey, text string) loggedReason {
	before, known := last[key]
	if now := p.Now(); !known || before.text != text || now.Sub(before.at) >= relogInterval {
		log.FromContext(ctx).Error(errors.New(text), message, "Pod", klog.KRef(key.Namespace, key.Name))
		return loggedReason{text, now}
	}
	return before
}

// allSeenBefore reports whether the previous pass found every one of these pods too.
func (p *Provisioner) allSeenBefore(pods []cluster.Pod) bool {
	before, all := p.lastPods, true
	p.lastPods = make(map[cluster.PodKey]bool, len(pods))
	for i := range pods {
		all = all && before[pods[i].Key]
		p.lastPods[pods[i].Key] = true
	}
	return all
}
