package top

import "github.com/dovetail-sh/dovetail/internal/inspect"

func helpDocument() inspect.Document {
	return inspect.Document{
		Title:  "Help",
		Answer: "Nothing that you do here changes the cluster.",
		Sections: []inspect.Section{
			{Title: "Keys", Rows: [][]string{
				{"↑ ↓  j k", "move, or scroll"},
				{"pgup pgdn  g G", "a page up or down, to the first or last row"},
				{"1 to 5  tab  ← →", "another view"},
				{"enter", "explain the selected node, pod or NodePool"},
				{"esc", "back; clear the filter"},
				{"/", "filter this view: every word has to be in a row; pool=web, zone=1a, type=m5, capacity=spot or state=removing look in one column only"},
				{"s  S", "sort by the next column, or the one before"},
				{"r", "reverse the order"},
				{"b", "bars of the next resource first"},
				{"R", "refresh now"},
				{"e", "errors, and what responses lack"},
				{"q  ctrl+c", "quit"},
			}},
			{Title: "What you see", Rows: [][]string{
				{"bars", "what pods request of what the node can give to pods, DaemonSets included. They are not what pods use."},
				{"$/hour", "- means that no price is known. Totals then begin with ≥, and say how many nodes are missing."},
				{"lower bound", "no nodes that hold the running pods cost less. The plan that gives it is renewed every minute."},
				{"Removing (3)", "three pods still have to leave the node; view 4 names them"},
				{"Drifted", "the node differs from its NodePool or node class, and will be replaced"},
				{"Blocked", "something keeps the node until you act; enter says what"},
			}},
		},
	}
}
