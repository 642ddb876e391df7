package reason

// Codes of node repair: why an unhealthy node is not repaired. Subjects are "node/NAME".
const (
	DoNotRepair    Code = "DoNotRepair"
	DrainUnbounded Code = "DrainUnbounded" // because: the pod that holds the node
	PoolAbsent     Code = "PoolAbsent"
)

// repairCodes documents them.
func repairCodes(yield func(Doc) bool) bool {
	const annotation = "karpenter.sh/do-not-repair"
	return yield(Doc{DoNotRepair, "it is not healthy, but carries annotation " + annotation, "The annotation forbids replacing or rebooting the node.", "Remove the annotation, or repair the node manually."}) &&
		yield(Doc{DrainUnbounded, "it is not healthy, but its drain might never end: neither the repair policy nor the NodeClaim bounds it", "A pod cannot be evicted now, and no deadline ends the wait.", "Set terminationGracePeriod in the template of the NodePool, or let the pod be evicted."}) &&
		yield(Doc{PoolAbsent, "it is not healthy, but its NodeClaim belongs to no NodePool, and repair needs one to make a replacement from", "Nodes without a NodePool are not repaired.", "Repair the node manually, or create the NodeClaim through a NodePool."})
}
