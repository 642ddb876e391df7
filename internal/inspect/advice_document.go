package inspect

import "strconv"

// Document lays Advice out for reading, without its notes.
func (a *Advice) Document() Document {
	d := Document{Title: "advice", Answer: a.summary()}
	table := Section{Title: "Advice", Columns: []string{"no", "about", "saves an hour", "a month", "kind", "bound falls by", "nodes", "pods"}, Wide: 3}
	what := Section{Title: "What to change"}
	for i := range a.Advised {
		one := &a.Advised[i]
		saves, month, bound := "-", "-", "-"
		if one.Saves > 0 {
			saves, month = money(one.Saves), monthly(one.Saves)
		}
		if one.Bound > leastShown {
			bound = money(one.Bound)
		}
		number := strconv.Itoa(i + 1)
		table.Rows = append(table.Rows, []string{number, one.Object, saves, month, string(one.Code), bound, strconv.Itoa(one.Nodes), strconv.Itoa(one.Pods)})
		what.Lines = append(what.Lines, number+". "+one.Object+": "+one.Text+". To change it: "+one.Change+".")
	}
	if len(a.Advised) > 0 {
		d.Sections = []Section{table, what}
	}
	return d
}

func (a *Advice) summary() string {
	saving, most := 0, 0.0
	for i := range a.Advised {
		if a.Advised[i].Saves > 0 {
			saving++
			most = max(most, a.Advised[i].Saves)
		}
	}
	switch {
	case len(a.Advised) == 0:
		return "Nothing was found that would make this cluster cheaper, or that keeps Dovetail from its work."
	case saving == 0:
		return count(len(a.Advised), "finding", "findings") + ", none of which costs money that can be counted."
	}
	return count(len(a.Advised), "finding", "findings") + ". The first saves " + money(most) + " an hour, " + monthly(most) +
		" a month, of the " + money(a.After) + " an hour that the cluster costs; the savings of several findings do not add up."
}
