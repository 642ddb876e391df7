package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Heights of the terminal from which parts of the frame are drawn. What is left out first says least.
const (
	withUsage  = 20
	withDetail = 16
	withMoney  = 9
	withTabs   = 7
	withTitle  = 6
	withHints  = 5
	withHeader = 3
)

// layout gives the tables and pages the room that the frame leaves.
func (m *Model) layout() {
	height := max(m.height-len(m.top())-len(m.bottom()), 0)
	for view := range planView {
		m.list(view).resize(max(height-m.headerHeight(), 0))
	}
	m.plan.resize(m.width, height)
	if m.open != nil {
		m.open.resize(m.width, max(m.height-len(m.bottom()), 0))
	}
}

func (m *Model) headerHeight() int {
	if m.height >= withHeader {
		return 1
	}
	return 0
}

// lines draws the screen: exactly as many lines as it is high, none wider than it is.
func (m *Model) lines() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	var out []string
	if m.open != nil {
		out = m.open.draw()
	} else {
		out = append(m.top(), m.body()...)
	}
	bottom := m.bottom()
	for len(out)+len(bottom) < m.height {
		out = append(out, "")
	}
	return append(out[:m.height-len(bottom):m.height-len(bottom)], bottom...)
}

func (m *Model) body() []string {
	if m.fleet == nil {
		return m.waiting()
	}
	l := m.list(m.view)
	if l == nil {
		if m.changes == nil {
			return m.planning()
		}
		return m.plan.draw()
	}
	if shown, _ := l.counts(); shown == 0 {
		return []string{"", newLine(m.width).blank(gutter).put(dim, l.nothing()).String()}
	}
	var out []string
	if m.headerHeight() > 0 {
		out = append(out, l.header(m.width))
	}
	return append(out, l.draw(m.width)...)
}

// waiting is shown until there is a first response.
func (m *Model) waiting() []string {
	out := []string{""}
	if m.ofFleet.err != nil {
		out = append(out, newLine(m.width).blank(gutter).put(bad, "The cluster cannot be read:").String())
		for _, l := range wrap(m.ofFleet.err.Error(), m.width-2*gutter) {
			out = append(out, newLine(m.width).blank(2*gutter).put(normal, l).String())
		}
		return append(out, newLine(m.width).blank(gutter).put(dim, m.nextTry(&m.ofFleet)).String())
	}
	return append(out, newLine(m.width).blank(gutter).put(dim, "Reading the cluster"+m.elapsed(&m.ofFleet)+" …").String())
}

func (m *Model) planning() []string {
	text := "Planning" + m.elapsed(&m.ofPlan) + " …"
	if m.ofPlan.err != nil {
		text = "No plan could be made: " + m.ofPlan.err.Error() + ". " + m.nextTry(&m.ofPlan)
	}
	out := []string{""}
	for _, l := range wrap(text, m.width-2*gutter) {
		out = append(out, newLine(m.width).blank(gutter).put(dim, l).String())
	}
	return out
}

// elapsed says how long a request has been awaited, once that is long.
func (m *Model) elapsed(a *requestState) string {
	if d := m.now.Sub(a.since); a.isRunning() && d >= slow {
		return " for " + age(d)
	}
	return ""
}

// nextTry says when a failed request is repeated.
func (m *Model) nextTry(a *requestState) string {
	if a.isRunning() {
		return "Trying again" + m.elapsed(a) + " …"
	}
	wait := max(a.due(m.every).Sub(m.now), 0).Round(time.Second)
	return fmt.Sprintf("Next try in %s; R retries now.", wait)
}

// top is what is above the table.
func (m *Model) top() []string {
	if m.open != nil {
		return nil
	}
	var out []string
	if m.height >= withTitle {
		out = append(out, m.title())
	}
	if m.fleet == nil {
		return out
	}
	if m.height >= withMoney {
		out = append(out, m.money())
	}
	if m.height >= withUsage {
		out = append(out, m.usage(), "")
	}
	if m.height >= withTabs {
		out = append(out, m.tabs())
	}
	return out
}

// title has the numbers of nodes and pods, and where they come from.
func (m *Model) title() string {
	l := newLine(m.width)
	if m.fleet == nil {
		return l.put(bold, "dovetail top").String()
	}
	t := &m.fleet.Totals
	l.put(bold, plural(t.Nodes, "node")).put(normal, "  "+plural(t.Pods, "pod"))
	if n := len(m.fleet.Pending); n > 0 {
		l.put(warn, fmt.Sprintf("  %s pending", grouped(int64(n))))
	}
	source := orUnknown(m.fleet.Source)
	st := dim
	d := m.now.Sub(m.fleet.At)
	text := source + ", " + age(d) + " ago"
	if m.every > 0 && d > 3*max(m.every, slow, m.ofFleet.took) {
		st = warn
	}
	if waited := m.elapsed(&m.ofFleet); waited != "" {
		st, text = warn, text+", waiting"+waited
	}
	return l.right(st, text).String()
}

// money has what the nodes cost, and how far that is from what they have to cost. The price a month makes room for the rest.
func (m *Model) money() string {
	l := newLine(m.width)
	t := &m.fleet.Totals
	hour, month, missing := costs(t)
	st, text := m.distance(t)
	if whole := text + m.boundedPods(t); widthOf(hour+month+missing+whole)+3*gap <= m.width {
		text = whole
	}
	l.put(bold, hour)
	if month != "" && widthOf(hour+month+missing+text)+3*gap <= m.width {
		l.put(normal, "  "+month)
	}
	if missing != "" {
		l.put(warn, "  "+missing)
	}
	return l.put(normal, "  ").put(st, text).String()
}

// boundedPods says which pods the lower bound is of, unless it is of all: the view Plan has that of all once the plan is done.
func (m *Model) boundedPods(t *inspect.Totals) string {
	if m.changes == nil || t.Bound <= 0 || len(m.fleet.Pending) == 0 {
		return ""
	}
	return " for running pods"
}

// distance compares the price of the nodes with the lower bound.
func (m *Model) distance(t *inspect.Totals) (style, string) {
	switch {
	case m.changes == nil && m.ofPlan.err != nil:
		return warn, "lower bound: the plan failed (e)"
	case m.changes == nil:
		return dim, "lower bound: planning" + m.elapsed(&m.ofPlan) + " …"
	case t.Bound <= 0:
		return dim, "no lower bound is known"
	case t.Unpriced > 0:
		return dim, "lower bound " + hourly(t.Bound)
	case t.Bound > t.Hourly: // the plan is older than the fleet
		return dim, "earlier lower bound " + hourly(t.Bound)
	}
	return normal, fmt.Sprintf("%s%% above the lower bound of %s", grouped(int64(100*(t.Hourly/t.Bound-1)+0.5)), hourly(t.Bound))
}

// usage has bars of what is requested of all nodes.
func (m *Model) usage() string {
	const width = 16
	l := newLine(m.width)
	for i, name := range m.bars {
		u, title := m.fleet.Totals.Use[name], resourceTitle(name)
		if u.Allocatable <= 0 || barRank(i, name) == hidden {
			continue
		}
		need := len(title) + 1 + width + 1 + 4
		if l.used > 0 {
			need += 3
		}
		if l.used+need > m.width {
			break
		}
		if l.used > 0 {
			l.blank(3)
		}
		l.put(dim, title+" ").bar(accent, u.Share(), width).put(normal, " "+percent(u.Share()))
	}
	return l.String()
}

// tabs has the views with how many rows they have. On narrow terminals, only the current one has its name.
func (m *Model) tabs() string {
	names := [views]string{"Nodes", "Pools", "Pending", "Activity", "Plan"}
	var texts [views]string
	needed := 0
	for view, name := range names {
		texts[view] = fmt.Sprintf("%d %s", view+1, name)
		if list := m.list(view); list != nil {
			shown, all := list.counts()
			texts[view] += " " + grouped(int64(all))
			if shown != all {
				texts[view] += " (" + grouped(int64(shown)) + ")"
			}
		}
		needed += widthOf(texts[view]) + 3
	}
	l := newLine(m.width)
	for view, text := range texts {
		if view == m.view {
			l.put(selected, "["+text+"]").blank(1)
			continue
		}
		if needed-1 > m.width {
			text = strconv.Itoa(view + 1)
		}
		l.put(dim, " "+text+" ").blank(1)
	}
	return l.String()
}

// bottom is what is below the table: a message, and the filter or the keys.
func (m *Model) bottom() []string {
	if m.height < withHints {
		return nil
	}
	out := m.details()
	if st, text := m.trouble(); text != "" {
		out = append(out, newLine(m.width).put(st, text).String())
	}
	return append(out, m.hints())
}

// details has more about the selected row. Its lines are always there, so that the table does not jump.
func (m *Model) details() []string {
	list := m.list(m.view)
	if list == nil || m.open != nil || m.fleet == nil || m.height < withDetail {
		return nil
	}
	text, lines := list.selectedDetail()
	wrapped := wrap(text, m.width-gutter)
	var out []string
	for i := range lines {
		l := newLine(m.width).blank(gutter)
		switch {
		case i == lines-1 && len(wrapped) > lines:
			l.put(dim, strings.Join(wrapped[i:], " "))
		case i < len(wrapped):
			l.put(dim, wrapped[i])
		}
		out = append(out, l.String())
	}
	return out
}

// trouble is what went wrong or is missing, with the next step.
func (m *Model) trouble() (style, string) {
	switch {
	case m.open != nil && m.open.request.err != nil && m.open.hasDocument:
		return bad, "Not refreshed: " + m.open.request.err.Error()
	case m.fleet == nil: // it is shown instead of the table
		return normal, ""
	case m.ofFleet.err != nil:
		return bad, m.nextTry(&m.ofFleet) + " e: details. " + m.ofFleet.err.Error()
	case m.ofPlan.err != nil:
		return bad, "No new plan; e: details. " + m.ofPlan.err.Error()
	case len(m.fleet.Notes) > 0:
		return warn, "Incomplete; e: details. " + m.fleet.Notes[0]
	}
	return normal, ""
}

// hints has the keys that matter now, and where in the list the user is.
func (m *Model) hints() string {
	l := newLine(m.width)
	if m.typing {
		return l.put(bold, "/").put(normal, m.typed[m.view]).put(selected, " ").right(dim, "enter keep  esc clear").String()
	}
	keys, where := "↑↓ move  enter explain  s sort  / filter  b bars  ? help  q quit", ""
	if m.width < widthOf(keys) {
		keys = "enter  s sort  / filter  ? help"
	}
	switch list := m.list(m.view); {
	case m.open != nil:
		keys, where = "↑↓ scroll  esc back  ? help  q quit", m.open.where()
		if waited := m.elapsed(&m.open.request); waited != "" {
			where = "waiting" + waited + "  " + where
		}
	case list == nil:
		keys, where = "↑↓ scroll  tab view  ? help  q quit", m.plan.where()
	default:
		if shown, all := list.counts(); shown > 0 {
			first, last := list.position()
			where = fmt.Sprintf("%d-%d of %s", first, last, grouped(int64(shown)))
			if shown != all {
				where += " (" + grouped(int64(all)) + ")"
			}
		}
		if filter := m.typed[m.view]; filter != "" {
			l.put(bold, "/"+filter+"  ")
		}
	}
	return l.put(dim, keys).right(dim, where).String()
}

// where says which lines of a page are visible.
func (p *page) where() string {
	if len(p.lines) <= p.height {
		return ""
	}
	return fmt.Sprintf("%d-%d of %d", p.first+1, min(p.first+p.height, len(p.lines)), len(p.lines))
}

// messages has the errors and notes in full.
func (m *Model) messages() inspect.Document {
	d := inspect.Document{Title: "Messages", Answer: "All responses are complete."}
	add := func(title string, lines ...string) {
		d.Answer = ""
		d.Sections = append(d.Sections, inspect.Section{Title: title, Lines: lines})
	}
	if err := m.ofFleet.err; err != nil {
		add("The cluster could not be read", strings.Split(err.Error(), "\n")...)
	}
	if err := m.ofPlan.err; err != nil {
		add("No new plan could be made", strings.Split(err.Error(), "\n")...)
	}
	if m.fleet != nil && len(m.fleet.Notes) > 0 {
		add("Missing from the response", m.fleet.Notes...)
	}
	if m.changes != nil && len(m.changes.Notes) > 0 {
		add("Missing from the plan", m.changes.Notes...)
	}
	return d
}
