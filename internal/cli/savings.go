package cli

import (
	"context"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/near"
)

type savingsFlags struct {
	source sourceFlags
	period periodFlags
	by     string
	format listFormat
}

func newSavings(s Streams) *cobra.Command {
	f := &savingsFlags{}
	cmd := &cobra.Command{
		Use:   "savings",
		Short: "Report what was spent, and what consolidation saved",
		Long: "Reports for each day, NodePool and namespace what the nodes cost, what they would have cost without consolidation, how\n" +
			"far that is from the lower bound, and the evictions that it took. Days are in UTC. Only the time that the controller\n" +
			"observed counts.\n\n" +
			"The command requests the ledger of the leader of the controller, and changes nothing. Nothing is recorded about a\n" +
			"cluster that Dovetail does not manage: dovetail plan --live shows what Dovetail would save there.\n\n" +
			"JSON lines and CSV have one row on each line, of one kind, so that they can be summed up: days, unless --by says\n" +
			"otherwise. Notes go to the standard error.",
		Example: "  # everything that is recorded\n  dovetail savings\n\n" +
			"  # the last week, by NodePool\n  dovetail savings --since 7d --by nodepool\n\n" +
			"  # what each namespace cost in November, for a spreadsheet\n  dovetail savings --since 2026-11-01 --until 2026-12-01 --by namespace -o csv > november.csv",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runSavings(ctx, f, s)
		},
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	refuseScenario(flags)
	f.period.bind(flags)
	flags.StringVar(&f.by, "by", "", "rows for each day, nodepool or namespace; if empty, tables show all three, and lines days")
	f.format.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(groupings(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	return cmd
}

func groupings() []string {
	var names []string
	for _, g := range inspect.Groupings() {
		names = append(names, string(g))
	}
	return names
}

func runSavings(ctx context.Context, f *savingsFlags, s Streams) error {
	if err := f.source.refuseFile("what was spent and saved"); err != nil {
		return err
	}
	if f.by != "" && !slices.Contains(groupings(), f.by) {
		return usagef("--by %q is not known%s; want %s", f.by, strings.TrimSuffix(near.Hint(f.by, groupings()), "?"), strings.Join(groupings(), ", "))
	}
	var query inspect.SavingsQuery
	var err error
	if query.Since, query.Until, err = f.period.read(time.Now()); err != nil {
		return err
	}
	service, err := f.source.open(ctx, s)
	if err != nil {
		return err
	}
	report, err := service.Savings(ctx, query)
	if err != nil {
		return err
	}
	return writeSavings(s, f.format, &report, inspect.Grouping(f.by))
}

// savingsLine is a row of a report with its day.
type savingsLine struct {
	Day            string  `json:"day"`
	Name           string  `json:"name,omitempty"` // of the NodePool or namespace
	Hours          float64 `json:"hours"`
	Spent          float64 `json:"spent"`
	Unconsolidated float64 `json:"unconsolidated"`
	Saved          float64 `json:"saved"`
	Bound          float64 `json:"bound,omitempty"`
	BoundSpent     float64 `json:"boundSpent,omitempty"`
	Evictions      int     `json:"evictions"`
}

// savingsLines are the rows of a grouping, oldest first.
func savingsLines(report *inspect.Savings, by inspect.Grouping) []savingsLine {
	var lines []savingsLine
	for i := range report.Days {
		d := &report.Days[i]
		for _, r := range d.Rows(by) {
			lines = append(lines, savingsLine{
				Day: d.Day, Name: r.Name, Hours: d.Hours, Spent: r.Spent, Unconsolidated: r.Unconsolidated, Saved: r.Saved(), Bound: r.Bound, BoundSpent: r.BoundSpent, Evictions: r.Evictions,
			})
		}
	}
	return lines
}

// writeSavings writes a report by a grouping; by none, tables show all.
func writeSavings(s Streams, format listFormat, report *inspect.Savings, by inspect.Grouping) error {
	shown := inspect.Groupings()
	if by != "" {
		shown = []inspect.Grouping{by}
	}
	return writeList(s, format, &list[savingsLine]{
		value: report, document: report.Document(shown...), notes: report.Notes, entries: savingsLines(report, shown[0]),
		columns: []string{"day", "name", "hours", "spent", "unconsolidated", "saved", "bound", "boundSpent", "evictions"},
		cells: func(l *savingsLine) []string {
			bound, boundSpent := "", ""
			if l.Bound > 0 {
				bound, boundSpent = numberCell(l.Bound), numberCell(l.BoundSpent)
			}
			return []string{l.Day, textCell(l.Name), numberCell(l.Hours), numberCell(l.Spent), numberCell(l.Unconsolidated), numberCell(l.Saved), bound, boundSpent, strconv.Itoa(l.Evictions)}
		},
	})
}
