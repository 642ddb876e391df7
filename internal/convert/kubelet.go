package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// maxClassName keeps the name of a class fit for the value of a label, which every node carries.
const maxClassName = 63

// oldKubelet drops what the kubelet no longer knows.
func (b *batch) oldKubelet(d *document, block map[string]any) *runtime.RawExtension {
	if _, there := block["containerRuntime"]; there {
		b.warn(d, "spec.kubeletConfiguration.containerRuntime", "is left out: containerd is the only runtime")
		delete(block, "containerRuntime")
	}
	if len(block) == 0 {
		return nil
	}
	raw, err := json.Marshal(block)
	if err != nil {
		b.fail(d, "spec.kubeletConfiguration", err.Error())
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}

// moveKubelets moves the kubelet blocks of pools to the classes they name. A class that is shared by
// pools of different settings is copied, once for each such pool (API 12.1).
func (b *batch) moveKubelets() {
	for _, e := range b.entries {
		b.checkKubelet(e)
	}
	for _, class := range slices.Clone(b.entries) {
		if class.class == nil {
			continue
		}
		pools := b.poolsOf(class.class.Name)
		if !slices.ContainsFunc(pools, hasKubelet) {
			continue
		}
		if other := b.sameNamed(class); other != nil {
			b.fail(class.doc, "metadata.name", fmt.Sprintf("another %s is at %s:%d, and pools move kubelet settings into it; convert the two in separate calls",
				class.identity(), other.doc.source, other.doc.lineOf("metadata.name")))
			return
		}
		first := kubeletOf(pools[0].pool)
		if slices.ContainsFunc(pools, func(e *entry) bool { return kubeletOf(e.pool) != first }) {
			b.split(class, pools)
			continue
		}
		b.merge(class, pools)
	}
	for _, e := range b.entries {
		if e.pool != nil && hasKubelet(e) {
			b.warnOrFail(e.doc, e.kubeletField, "its EC2NodeClass "+e.pool.Spec.Template.Spec.NodeClassRef.Name+
				" is not part of the input, so the kubelet block stays on the pool; convert both together to move it")
		}
	}
}

// checkKubelet refuses a block that is none and drops an empty one.
func (b *batch) checkKubelet(e *entry) {
	if e.pool == nil || e.pool.Spec.Template.Spec.Kubelet == nil {
		return
	}
	var members map[string]any
	switch err := json.Unmarshal(e.pool.Spec.Template.Spec.Kubelet.Raw, &members); {
	case err != nil:
		b.fail(e.doc, e.kubeletField, "is not a mapping")
		e.pool.Spec.Template.Spec.Kubelet = nil
	case len(members) == 0:
		e.pool.Spec.Template.Spec.Kubelet = nil
	case !ofEC2(e.pool):
		b.warn(e.doc, e.kubeletField, "stays on the pool: its node class is not an EC2NodeClass")
	}
}

func ofEC2(pool *karpv1.NodePool) bool {
	ref := pool.Spec.Template.Spec.NodeClassRef
	return ref.Group == awsv1.Group && ref.Kind == awsv1.Kind
}

// merge gives the class the settings that all its pools agree on.
func (b *batch) merge(class *entry, pools []*entry) {
	settings := pools[0].pool.Spec.Template.Spec.Kubelet
	if own := class.class.Spec.Kubelet; own != nil && !sameJSON(own.Raw, settings.Raw) {
		b.warn(class.doc, "spec.kubelet", "is replaced by the block of its pools, which counted before: "+string(own.Raw)+" is gone")
	}
	class.class.Spec.Kubelet = settings
	for _, e := range pools {
		b.warn(e.doc, e.kubeletField, "moved to EC2NodeClass "+class.class.Name+driftWarning(e))
		e.pool.Spec.Template.Spec.Kubelet = nil
	}
}

// split gives each pool with a kubelet block a copy of the class.
func (b *batch) split(class *entry, pools []*entry) {
	at := slices.Index(b.entries, class) + 1
	for _, e := range pools {
		if !hasKubelet(e) {
			continue
		}
		template := &e.pool.Spec.Template.Spec
		copied := &entry{doc: class.doc, class: class.class.DeepCopy(), spelling: class.spelling}
		copied.class.Name = class.class.Name + "-" + e.pool.Name
		switch {
		case len(copied.class.Name) > maxClassName:
			b.fail(e.doc, e.kubeletField, fmt.Sprintf("differs between pools that share EC2NodeClass %s, but a copy for this pool would need the name %s of more than %d characters; rename the pool or the class",
				class.class.Name, copied.class.Name, maxClassName))
		case b.sameNamed(copied) != nil:
			b.fail(e.doc, e.kubeletField, "differs between pools that share EC2NodeClass "+class.class.Name+", but the name of a copy for this pool, "+copied.class.Name+", is taken; rename one of them")
		default:
			b.warn(e.doc, e.kubeletField, "differs between pools that share EC2NodeClass "+class.class.Name+"; the pool now uses its own copy "+copied.class.Name+driftWarning(e))
			b.entries = slices.Insert(b.entries, at, copied)
			at++
		}
		copied.class.Spec.Kubelet = template.Kubelet
		template.NodeClassRef.Name, template.Kubelet = copied.class.Name, nil
	}
}

// driftWarning warns that drift hashes change. A Provisioner has no nodes that know of a NodePool.
func driftWarning(e *entry) string {
	if e.doc.gvk().Kind != "NodePool" {
		return ""
	}
	return ": applying this replaces the nodes of the pool"
}

// sameNamed returns another class of the same name.
func (b *batch) sameNamed(class *entry) *entry {
	i := slices.IndexFunc(b.entries, func(e *entry) bool { return e != class && e.class != nil && e.class.Name == class.class.Name })
	if i < 0 {
		return nil
	}
	return b.entries[i]
}

func (b *batch) poolsOf(class string) []*entry {
	var pools []*entry
	for _, e := range b.entries {
		if e.pool != nil && ofEC2(e.pool) && e.pool.Spec.Template.Spec.NodeClassRef.Name == class {
			pools = append(pools, e)
		}
	}
	return pools
}

func hasKubelet(e *entry) bool { return e.pool != nil && ofEC2(e.pool) && kubeletOf(e.pool) != "" }

// kubeletOf returns the kubelet block of a pool with its members in order, or "".
func kubeletOf(pool *karpv1.NodePool) string {
	block := pool.Spec.Template.Spec.Kubelet
	if block == nil {
		return ""
	}
	return ordered(block.Raw)
}

func sameJSON(a, b []byte) bool { return ordered(a) == ordered(b) }

// ordered writes JSON with its members in order.
func ordered(raw []byte) string {
	tree, err := decodeNumbers(raw)
	if err != nil {
		return string(raw)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return string(raw)
	}
	return string(text)
}
