package top

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Views, in the order of their tabs.
const (
	nodesView = iota
	poolsView
	pendingView
	activityView
	planView
	views
)

// Model is the state of the screen.
type Model struct {
	requests requests
	every    time.Duration // between responses and requests; 0: the cluster cannot change

	now           time.Time
	width, height int
	fleet         *inspect.Fleet // nil: none has been received
	changes       *inspect.Changes
	ofFleet       requestState
	ofPlan        requestState
	mostMoving    map[string]int

	view     int
	bars     bars
	turned   int // how often the bars were rotated
	nodes    *table[nodeRow]
	pools    *table[inspect.Pool]
	pending  *table[pendingRow]
	activity *table[activityRow]
	plan     page

	open   *opened // nil: no page is open
	typing bool    // a filter is being typed
	typed  [views]string
}

// opened is a page above the views: an explanation, the help, or messages.
type opened struct {
	page
	about       inspect.Subject // zero: it is not an explanation
	request     requestState
	hasDocument bool // an explanation has been received
}

func newModel(r requests, every time.Duration) *Model {
	return &Model{requests: r, every: every, nodes: newNodes(nil), pools: newPools(nil), pending: newPending(), activity: newActivity()}
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return m.requests.begin }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 0), max(msg.Height, 0)
	case tickMsg:
		m.now = msg.now
		cmd = tea.Batch(m.requests.tick, m.requestDue())
	case fleetMsg:
		cmd = m.receiveFleet(msg)
	case planMsg:
		m.ofPlan.recordResponse(msg.response)
		m.advance(msg.at)
		if msg.err == nil {
			m.changes = &msg.changes
			m.plan.show(msg.changes.Document())
			m.fill()
		}
	case explainMsg:
		m.receiveExplanation(msg)
	case tea.PasteMsg:
		if m.typing {
			m.typeFilter(m.typed[m.view] + msg.Content)
		}
	case tea.KeyPressMsg:
		cmd = m.press(msg.Key())
	}
	m.layout()
	return m, cmd
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// advance sets the time, which never goes back.
func (m *Model) advance(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
}

// requestDue makes the requests that are due.
func (m *Model) requestDue() tea.Cmd {
	var cmds []tea.Cmd
	again := m.every > 0 || m.ofFleet.err != nil
	if !m.ofFleet.isRunning() && (m.ofFleet.at.IsZero() || again && !m.now.Before(m.ofFleet.due(m.every))) {
		cmds = append(cmds, m.requestFleet())
	}
	again = m.every > 0 || m.ofPlan.err != nil
	if m.fleet != nil && !m.ofPlan.isRunning() && (m.ofPlan.at.IsZero() || again && !m.now.Before(m.ofPlan.due(max(planEvery, m.every, planPauseFactor*m.ofPlan.took)))) {
		m.ofPlan.since = m.now
		cmds = append(cmds, m.requests.plan)
	}
	return tea.Batch(cmds...)
}

func (m *Model) requestFleet() tea.Cmd {
	m.ofFleet.since = m.now
	return m.requests.fleet
}

// refreshNow makes all requests now, except those that are awaited.
func (m *Model) refreshNow() tea.Cmd {
	var cmds []tea.Cmd
	if !m.ofFleet.isRunning() {
		cmds = append(cmds, m.requestFleet())
	}
	if m.fleet != nil && !m.ofPlan.isRunning() {
		m.ofPlan.since = m.now
		cmds = append(cmds, m.requests.plan)
	}
	return tea.Batch(append(cmds, m.requestExplanation())...)
}

func (m *Model) requestExplanation() tea.Cmd {
	if m.open == nil || m.open.about.Name == "" || m.open.request.isRunning() {
		return nil
	}
	m.open.request.since = m.now
	return m.requests.explain(m.open.about)
}

func (m *Model) receiveFleet(msg fleetMsg) tea.Cmd {
	first := m.fleet == nil
	m.ofFleet.recordResponse(msg.response)
	m.advance(msg.at)
	if msg.err != nil { // the last good fleet stays
		return nil
	}
	m.fleet = &msg.fleet
	m.fill()
	if first {
		return m.requestDue() // the plan
	}
	if m.open != nil && m.open.request.took*pauseFactor <= m.now.Sub(m.open.request.at) {
		return m.requestExplanation()
	}
	return nil
}

func (m *Model) receiveExplanation(msg explainMsg) {
	m.advance(msg.at)
	if m.open == nil || m.open.about != msg.about {
		return // it has been closed meanwhile
	}
	m.open.request.recordResponse(msg.response)
	switch {
	case msg.err == nil:
		m.open.hasDocument = true
		m.open.show(msg.document)
	case !m.open.hasDocument:
		m.open.show(inspect.Document{Title: msg.about.String(), Answer: "No explanation: " + msg.err.Error() + ". R tries again, esc goes back."})
	}
}

// fill puts the fleet, with what the plan knows, into the tables.
func (m *Model) fill() {
	if m.fleet == nil {
		return
	}
	f := m.fleet
	if m.changes != nil {
		m.changes.AddTo(f)
	}
	if order := barsOf(&f.Totals).rotate(m.turned); !slices.Equal(order, m.bars) {
		m.setBars(order)
	}
	nodes := make([]nodeRow, len(f.Nodes))
	for i := range f.Nodes {
		nodes[i] = nodeRow{Node: f.Nodes[i], at: f.At}
	}
	pending := make([]pendingRow, len(f.Pending))
	for i := range f.Pending {
		pending[i] = pendingRow{Pending: f.Pending[i], at: f.At, planned: m.changes != nil}
	}
	m.mostMoving = mostMoving(m.mostMoving, nodes)
	m.nodes.set(nodes)
	m.pools.set(f.Pools)
	m.pending.set(pending)
	m.activity.set(activityOf(nodes, m.mostMoving))
}

// setBars changes the order of the bars. Rows stay sorted by the same column.
func (m *Model) setBars(order bars) {
	m.bars = order
	nodes, pools := newNodes(order), newPools(order)
	m.nodes.use(nodes.columns)
	m.pools.use(pools.columns)
}

// list is the table of a view, or nil.
func (m *Model) list(view int) list {
	switch view {
	case nodesView:
		return m.nodes
	case poolsView:
		return m.pools
	case pendingView:
		return m.pending
	case activityView:
		return m.activity
	}
	return nil
}
