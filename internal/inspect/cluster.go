package inspect

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Cluster is a cluster as questions see it. It is never written to.
type Cluster struct {
	View     disrupt.View            // of one instant: nodes, pools, the snapshot of all, and how decisions are made
	Ignored  []cluster.Pod           // pending pods that are not planned for; their shape says why
	Awaiting map[cluster.PodKey]bool // pods whose nodes wait for replacements
	Untyped  map[string]string       // NodePools whose instance types are not known, and why
}

// Finding is something that was found, in words and as a code of reasons.md.
type Finding struct {
	Code reason.Code `json:"code"`
	Text string      `json:"text"`
	Fix  string      `json:"fix,omitempty"` // what to do about it
}

// FindingOf puts a reason into words.
func FindingOf(r reason.Reason) Finding {
	f := Finding{Code: r.Code, Text: r.Text()}
	if doc, known := reason.Lookup(r.Code); known {
		f.Fix = doc.Fix
	}
	return f
}
