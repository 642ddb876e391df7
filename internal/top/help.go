package top

import "github.com/dovetail-sh/dovetail/internal/inspect"

func helpDocument() inspect.Document {
	return inspect.Document{
		Title:  "Help",
		Answer: "Nothing that you do here changes the cluster.",
		Sections: []inspect.Section{
			{Title: "Keys", Rows: [][]string{
				{"↑ ↓  j k", "move or scroll"},
				{"pgup pgdn  g G", "a page up or down, to the first or last row"},
				{"1 to 5  tab  ← →", "switch views"},
				{"enter", "explain the selected node, pod or NodePool"},
				{"esc", "back; clear the filter"},
				{"/", "filter this view: a row must contain every word; pool=web, zone=1a, type=m5, capacity=spot or state=removing search in one column only"},
				{"s  S", "sort by the next column, or the one before"},
				{"r", "reverse the order"},
				{"b", "show the next resource in the bars"},
				{"R", "refresh now"},
				{"e", "errors, and what is missing from responses"},
				{"q  ctrl+c", "quit"},
			}},
			{Title: "What you see", Rows: [][]string{
				{"bars", "the share of the allocatable resources that pods request, including DaemonSets. They do not show actual usage."},
				{"$/hour", "- means that the price is unknown. Totals then begin with ≥ and show the number of nodes without a price."},
				{"lower bound", "the lowest possible cost of any nodes for the running pods, updated once a minute"},
				{"Removing (3)", "three pods still have to leave the node; view 4 names them"},
				{"Drifted", "the node differs from its NodePool or node class, and will be replaced"},
				{"Blocked", "something keeps the node until you act; enter says what"},
			}},
		},
	}
}
