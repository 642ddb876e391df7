package journal

// removal is a claim that was deleted although no command removes it.
type removal struct {
	Claim  string `json:"claim"`
	Node   string `json:"node,omitempty"` // empty: it has none
	Reason string `json:"reason"`         // as the metric karpenter_nodeclaims_disrupted_total names it
}

// Removed takes in that a claim was deleted without a check whether it may go: it expired, was
// interrupted, failed to launch, is unhealthy, or its static pool shrinks.
func (j *Journal) Removed(claim, node, reason string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(Entry{At: j.now(), Kind: Removal, Value: j.encoded(removal{claim, node, reason}), nodes: []string{claim, node}})
}
