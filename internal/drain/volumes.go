package drain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// PodClaims names the PersistentVolumeClaims of a pod, those it makes for itself included.
func PodClaims(p *corev1.Pod) []types.NamespacedName {
	var out []types.NamespacedName
	for i := range p.Spec.Volumes {
		if name := cluster.ClaimOf(p, &p.Spec.Volumes[i]); name != "" {
			out = append(out, types.NamespacedName{Namespace: p.Namespace, Name: name})
		}
	}
	return out
}

// attached returns the attachments that the instance has to wait for (LC-37). Volumes of pods that remain on the node
// are never detached, and attachments without a PersistentVolume hold no user data.
func attached(f Facts, taint corev1.Taint) []*storagev1.VolumeAttachment {
	left := map[string]bool{}
	for _, p := range f.Pods {
		if cluster.PodEnded(p) || !cluster.LeftBehind(p, taint, f.Now) {
			continue
		}
		for _, claim := range PodClaims(p) {
			left[f.Volumes[claim]] = true
		}
	}
	var out []*storagev1.VolumeAttachment
	for _, a := range f.Attachments {
		if v := a.Spec.Source.PersistentVolumeName; v != nil && *v != "" && !left[*v] {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *storagev1.VolumeAttachment) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

func awaitingDetachment(waiting []*storagev1.VolumeAttachment, deadline time.Time) event.Event {
	names := make([]string, 0, maxNamed)
	for _, a := range waiting[:min(len(waiting), maxNamed)] {
		names = append(names, a.Name+" (volume "+*a.Spec.Source.PersistentVolumeName+")")
	}
	text := fmt.Sprintf("The instance is kept until %s: %s", orZero(len(waiting)), list(names, len(waiting)))
	if !deadline.IsZero() {
		text += "; no later than " + deadline.UTC().Format(time.RFC3339)
	}
	return event.Event{Reason: event.AwaitingVolumeDetachment, Text: text}
}

func orZero(n int) string {
	if n == 1 {
		return "1 volume attachment is gone"
	}
	return fmt.Sprintf("%d volume attachments are gone", n)
}
