package controller

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// sayAgain is when the log repeats why a pod has no place. Plans are made every few seconds as long as
// a pod waits, and would bury everything else.
const sayAgain = 5 * time.Minute

// said is what the log said last about a pod, and when.
type said struct {
	text string
	at   time.Time
}

// say logs why a pod gets no node, unless it was said a moment ago, and returns what to remember.
func (p *Provisioner) say(ctx context.Context, last map[cluster.PodKey]said, message string, key cluster.PodKey, text string) said {
	before, known := last[key]
	if now := p.Now(); !known || before.text != text || now.Sub(before.at) >= sayAgain {
		log.FromContext(ctx).Error(errors.New(text), message, "Pod", klog.KRef(key.Namespace, key.Name))
		return said{text, now}
	}
	return before
}

// stale reports whether every pod was found by the pass before too: that they still wait is no news.
func (p *Provisioner) stale(pods []cluster.Pod) bool {
	before, all := p.found, true
	p.found = make(map[cluster.PodKey]bool, len(pods))
	for i := range pods {
		all = all && before[pods[i].Key]
		p.found[pods[i].Key] = true
	}
	return all
}
