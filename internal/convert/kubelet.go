package convert

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

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
	for _, class := range slices.Clone(b.entries) {
		if class.class == nil {
			continue
		}
		pools := b.poolsOf(class.class.Name)
		if !slices.ContainsFunc(pools, func(e *entry) bool { return kubeletOf(e.pool) != "" }) {
			continue
		}
		first := kubeletOf(pools[0].pool)
		if !slices.ContainsFunc(pools, func(e *entry) bool { return kubeletOf(e.pool) != first }) {
			class.class.Spec.Kubelet = pools[0].pool.Spec.Template.Spec.Kubelet
			for _, e := range pools {
				e.pool.Spec.Template.Spec.Kubelet = nil
			}
			continue
		}
		b.split(class, pools)
	}
	for _, e := range b.entries {
		if e.pool != nil && kubeletOf(e.pool) != "" {
			b.doubt(e.doc, "spec.template.spec.kubelet", "EC2NodeClass "+e.pool.Spec.Template.Spec.NodeClassRef.Name+
				" is not part of the input, so the kubelet block stays on the pool; convert both together to move it")
		}
	}
}

// split gives each pool with a kubelet block a copy of the class.
func (b *batch) split(class *entry, pools []*entry) {
	at := slices.Index(b.entries, class) + 1
	for _, e := range pools {
		if kubeletOf(e.pool) == "" {
			continue
		}
		template := &e.pool.Spec.Template.Spec
		copied := &entry{doc: class.doc, class: class.class.DeepCopy(), spelling: class.spelling}
		copied.class.Name = class.class.Name + "-" + e.pool.Name
		copied.class.Spec.Kubelet = template.Kubelet
		b.warn(e.doc, "spec.template.spec.kubelet", "differs between pools that share EC2NodeClass "+class.class.Name+"; the pool now uses its own copy "+copied.class.Name)
		template.NodeClassRef.Name, template.Kubelet = copied.class.Name, nil
		b.entries = slices.Insert(b.entries, at, copied)
		at++
	}
}

func (b *batch) poolsOf(class string) []*entry {
	var pools []*entry
	for _, e := range b.entries {
		if e.pool != nil && e.pool.Spec.Template.Spec.NodeClassRef.Name == class {
			pools = append(pools, e)
		}
	}
	return pools
}

// kubeletOf returns the kubelet block of a pool with its members in order, or "".
func kubeletOf(pool *karpv1.NodePool) string {
	block := pool.Spec.Template.Spec.Kubelet
	if block == nil {
		return ""
	}
	var members map[string]any
	if err := json.Unmarshal(block.Raw, &members); err != nil || len(members) == 0 {
		return ""
	}
	text, err := json.Marshal(members)
	if err != nil {
		return ""
	}
	return string(text)
}
