package cli

import (
	"context"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/near"
)

type historyFlags struct {
	subjectFlags

	period periodFlags
	kinds  []string
	limit  int
	format listFormat
}

func newHistory(s Streams) *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use:   "history [KIND NAME]",
		Short: "List what was decided, about the cluster or one object",
		Long: "Lists what the controller decided and what became of it, oldest first: nodes that were launched or removed, why, which\n" +
			"pods moved, and what that saves. With KIND NAME, what was decided about that pod, node, NodeClaim or NodePool.\n\n" +
			"The command requests the ledger of the leader of the controller. If the leader cannot respond, it uses the events of\n" +
			"Kubernetes instead, and a note says so. It changes nothing.\n\n" +
			"JSON lines and CSV have one event on each line, for jq and spreadsheets; notes go to the standard error. A cell of CSV\n" +
			"that a spreadsheet would take for a formula has an apostrophe in front.",
		Example: "  # what was decided in the last 24 hours?\n  dovetail history --since 24h\n\n" +
			"  # why was this node removed?\n  dovetail history node/ip-10-0-1-2.ec2.internal\n\n" +
			"  # all commands of a day, for a spreadsheet\n  dovetail history --kind command --since 2026-11-18 --until 2026-11-19 --limit 0 -o csv > commands.csv\n\n" +
			"  # which nodes were removed, with jq\n  dovetail history --kind command -o jsonl | jq -r '.detail.remove[].node'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			_, err := f.subject(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runHistory(ctx, f, s, args)
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return f.complete(contextOf(cmd.Context()), s, args, typed)
	}
	flags := cmd.Flags()
	f.bind(flags)
	refuseScenario(flags)
	f.period.bind(flags)
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these kinds of entries: "+strings.Join(entryKinds(), ", ")+"; of events of Kubernetes, their reasons")
	flags.IntVar(&f.limit, "limit", 100, "only the latest that match, at most 1000; 0: all that are recorded")
	f.format.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(entryKinds(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	return cmd
}

// entryKinds are the kinds of entries of the ledger.
func entryKinds() []string {
	var kinds []string
	for _, k := range journal.Kinds() {
		if k != journal.Blocked { // how things are now, of which there is no entry
			kinds = append(kinds, string(k))
		}
	}
	return kinds
}

// query is what is requested.
func (f *historyFlags) query(s Streams, args []string) (inspect.HistoryQuery, error) {
	q := inspect.HistoryQuery{Kinds: f.kinds, Limit: f.limit}
	for _, kind := range f.kinds {
		// Reasons of events begin with a capital letter, and there is no list of all.
		if !slices.Contains(entryKinds(), kind) && strings.IndexFunc(kind, unicode.IsUpper) != 0 {
			return q, usagef("--kind %q is not known%s; want %s, or the reason of an event such as DisruptionTerminating",
				kind, strings.TrimSuffix(near.Hint(kind, entryKinds()), "?"), strings.Join(entryKinds(), ", "))
		}
	}
	switch {
	case f.limit == 0:
		q.Limit = inspect.AllEvents
	case f.limit < 0 || f.limit > 1000:
		return q, usagef("--limit %d is too large or too small; want 1 to 1000, or 0 for all that are recorded", f.limit)
	}
	var err error
	if q.Since, q.Until, err = f.period.read(time.Now()); err != nil || len(args) == 0 {
		return q, err
	}
	about, err := f.subject(args)
	q.Object = f.located(about, s)
	return q, err
}

func runHistory(ctx context.Context, f *historyFlags, s Streams, args []string) error {
	if err := f.source.refuseFile("what was decided before"); err != nil {
		return err
	}
	query, err := f.query(s, args)
	if err != nil {
		return err
	}
	service, err := f.source.open(ctx, s)
	if err != nil {
		return err
	}
	h, err := service.History(ctx, query)
	if err != nil {
		return err
	}
	return writeHistory(s, f.format, &h, &query)
}

func writeHistory(s Streams, format listFormat, h *inspect.History, query *inspect.HistoryQuery) error {
	return writeList(s, format, &list[inspect.Event]{
		value: h, document: h.Document(query), notes: h.Notes, entries: h.Events,
		columns: []string{"at", "kind", "text", "objects", "saves", "id", "source"},
		cells: func(e *inspect.Event) []string {
			saves := ""
			if e.Saves != 0 {
				saves = numberCell(e.Saves)
			}
			return []string{e.At.UTC().Format(time.RFC3339Nano), textCell(e.Kind), textCell(e.Text), textCell(strings.Join(e.Objects, " ")), saves, textCell(e.ID), textCell(e.Source)}
		},
	})
}
