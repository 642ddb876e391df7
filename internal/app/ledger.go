package app

import (
	"cmp"
	"context"
	"errors"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
)

// decisionRecord is what disruption writes to: the journal, which has all details for a while, and the ledger.
type decisionRecord struct {
	*journal.Journal
	*keep.Ledger
}

// past is what was decided before: the ledger has it for longer, and the journal what passes found beyond their commands.
type past struct {
	journal *journal.Journal
	book    *keep.Ledger
}

// History implements inspect.Historian.
func (p past) History(ctx context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	if slices.Contains(q.Kinds, string(journal.Decision)) {
		return p.journal.History(ctx, q)
	}
	return p.book.History(ctx, q)
}

// Savings implements inspect.Accountant.
func (p past) Savings(ctx context.Context, q inspect.SavingsQuery) (inspect.Savings, error) {
	return p.book.Savings(ctx, q)
}

// isForPods reports whether a claim is launched for pods that have no node: it is neither a replacement nor of a static pool.
func isForPods(claim *karpv1.NodeClaim) bool {
	return claim.Annotations[karpv1.AnnotationPods] != "" && claim.Annotations[karpv1.AnnotationCommand] == "" && claim.Annotations[karpv1.AnnotationReplaces] == ""
}

// storeLedger has the leader keep the ledger in ConfigMaps, if the user wants that. Otherwise no request is sent.
func (c *core) storeLedger() error {
	if !c.cfg.Server.Ledger {
		return nil
	}
	namespace := cmp.Or(c.cfg.Namespace, leaseNamespace(c.cfg))
	if namespace == "" {
		return errors.New("the namespace of the ledger is not known; set --system-namespace, or --ledger=false")
	}
	return c.mgr.Add(keep.NewStore(c.book, c.mgr.GetClient(), c.mgr.GetAPIReader(), namespace))
}
