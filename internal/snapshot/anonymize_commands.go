package snapshot

import (
	"maps"
	"strconv"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// podsByHash are the pods that annotations of NodeClaims can mean.
func (f *File) podsByHash() map[uint32][]cluster.PodKey {
	out := map[uint32][]cluster.PodKey{}
	for _, pods := range [][]pod{f.Objects.Pods, f.Objects.VirtualPods} {
		for i := range pods {
			key := cluster.PodKey{Namespace: pods[i].Namespace, Name: pods[i].Name}
			out[key.Hash()] = append(out[key.Hash()], key)
		}
	}
	return out
}

// commands renames what the annotations of a NodeClaim or a Node say of running commands and planned pods: without it, the plan
// would be another. What is malformed has no effect, and is removed.
func (r *renamer) commands(annotations map[string]string) {
	order, is := cluster.ReadOrder(annotations)
	delete(annotations, karpv1.AnnotationReplaces)
	delete(annotations, karpv1.AnnotationCommand)
	if is {
		r.all(order.Replaces)
		order.ID, order.Because = r.name(order.ID), ""
		maps.Copy(annotations, order.Annotations())
	}
	if token, held := annotations[karpv1.AnnotationHeldBy]; held {
		annotations[karpv1.AnnotationHeldBy] = r.token(token)
	}
	if text, planned := annotations[karpv1.AnnotationPods]; planned {
		var pods []cluster.PodKey
		for _, hash := range cluster.ReadHashes(text) {
			for _, key := range r.pods[hash] {
				pods = append(pods, cluster.PodKey{Namespace: r.name(key.Namespace), Name: r.name(key.Name)})
			}
		}
		annotations[karpv1.AnnotationPods] = cluster.HashPods(pods)
	}
}

// token renames the id of a command in its token; the rest is a time.
func (r *renamer) token(token string) string {
	at := strings.LastIndexByte(token, '-')
	if at < 0 {
		return r.name(token)
	}
	if _, err := strconv.ParseInt(token[at+1:], 36, 64); err != nil {
		return r.name(token)
	}
	return r.name(token[:at]) + token[at:]
}
