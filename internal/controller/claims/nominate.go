package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	nominateAtOnce        = 10               // concurrent requests for the pods of one node
	nominateTimeout       = 5 * time.Second  // that the registration of a node waits for them
	nominateDeniedBackoff = 10 * time.Minute // after a denied request: the permission may be granted meanwhile
)

// Nominator writes status.nominatedNodeName of pods that have none. The scheduler then tries them first on the
// node that was launched for them, and keeps its room from pods of no higher priority. A value that the
// scheduler wrote is never changed. A pod that does not fit is scheduled as without a nomination.
type Nominator struct {
	Client  client.Client
	Pods    func(claim string) []*corev1.Pod
	Metrics *metric.Set
	Now     func() time.Time

	mu     sync.Mutex
	denied time.Time // when a request was last forbidden
}

// Nominate writes a node on the pods that were planned onto its claim. It is best effort.
func (n *Nominator) Nominate(ctx context.Context, claim, node string) {
	if n.isDenied() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nominateTimeout)
	defer cancel()
	var wait sync.WaitGroup
	free := make(chan struct{}, nominateAtOnce)
	for _, pod := range n.Pods(claim) {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			n.recordResult(ctx, pod, n.write(ctx, pod, node))
		})
	}
	wait.Wait()
}

// write sets the nomination, unless the pod was replaced by another of the same name or has one.
func (n *Nominator) write(ctx context.Context, pod *corev1.Pod, node string) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pod.UID},
		{"op": "test", "path": "/status/nominatedNodeName", "value": nil},
		{"op": "add", "path": "/status/nominatedNodeName", "value": node},
	})
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return n.Client.Status().Patch(ctx, named, client.RawPatch(types.JSONPatchType, patch))
}

// recordResult counts the result of a request, and logs a missing permission once.
func (n *Nominator) recordResult(ctx context.Context, pod *corev1.Pod, err error) {
	result := "done"
	switch {
	case err == nil:
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsConflict(err):
		result = "taken"
	case apierrors.IsForbidden(err):
		result = "denied"
		if n.recordDenial() {
			log.FromContext(ctx).Error(err, "pods are not nominated for the nodes that were launched for them, so the scheduler may give their room to others and more nodes may be needed; "+
				"allow the service account to patch pods/status, or set --nominate-pods=false")
		}
	default:
		result = "failed"
		log.FromContext(ctx).V(1).Info("nominating a pod failed; the scheduler decides without it", "Pod", klog.KObj(pod), "reason", err.Error())
	}
	n.Metrics.PodsNominated.WithLabelValues(result).Inc()
}

func (n *Nominator) isDenied() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.denied.IsZero() && n.Now().Sub(n.denied) < nominateDeniedBackoff
}

// recordDenial pauses nominations and reports whether this is the first denial.
func (n *Nominator) recordDenial() (first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first = n.denied.IsZero()
	n.denied = n.Now()
	return first
}
