// Package ledger keeps what was decided and what the cluster cost, as a value that is bounded whatever comes in.
//
// A Book records events (inspect.Event, as internal/journal words them) and an Observation in each pass: the price of every
// managed node, and whose pods request it. It answers History and Savings (what these estimate: savings.go), and is written to
// a fixed number of Segments (segment.go), each small enough for a ConfigMap. Two copies that went on from one are merged:
// Merge is commutative and idempotent. Time is an input. Not here: clocks, locks and the API server (internal/ledger/keep),
// decisions (internal/disrupt).
//
// Start reading at Book.
package ledger
