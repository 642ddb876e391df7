package consolidate

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/parallel"
)

// Question is the input of a search for nodes that can be removed. It has no pending pods: callers plan for those first.
type Question struct {
	View       *cluster.Snapshot `json:"view"`
	Candidates []string          `json:"candidates"` // nodes that may be removed; others only take pods
	Policy     model.Policy      `json:"policy"`

	Most  map[string]int `json:"most,omitempty"`  // nodes of a pool that may be removed at most; pools that are absent have no limit
	First []string       `json:"first,omitempty"` // pools that an earlier search had no time for: the step search begins with them
}

// Limits are the deadlines of a search; nil means none. They are polled from several goroutines, and must keep
// returning true once they have.
type Limits struct {
	Stop   func() bool // for everything
	Joint  func() bool // for planning for all candidates together
	Single func() bool // for the scheduler forecast and the step search that follow
}

// eitherStop combines two limits: it holds as soon as one of them does.
func eitherStop(a, b func() bool) func() bool {
	switch {
	case a == nil && b == nil:
		return func() bool { return false }
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func() bool { return a() || b() }
}

// Consolidation is the result of a Question. Its moves are in execution order, highest saving per disruption first.
type Consolidation struct {
	Moves    []Move    `json:"moves,omitempty"`
	Kept     []Verdict `json:"kept,omitempty"`    // candidates that are kept, and why, by name
	Before   float64   `json:"before"`            // USD an hour of all nodes with a price that are not being deleted
	After    float64   `json:"after"`             // the same once every move is made
	Bound    float64   `json:"bound,omitempty"`   // no cluster that holds the pods costs less; 0: not known
	Examined int       `json:"examined"`          // candidates examined
	Partial  bool      `json:"partial,omitempty"` // time was up before everything was tried: the moves are the best so far
	Loose    bool      `json:"loose,omitempty"`   // any of the moves may be left out: no later one depends on it
	Limited  bool      `json:"limited,omitempty"` // Most prevented further removals

	Unreached []string `json:"unreached,omitempty"` // pools with candidates of which the step search had tried none when its time was up
}

// Move removes nodes. Their pods move to nodes that are kept, or to new ones. A new node only takes pods of its own
// move, so a move depends on earlier moves only.
type Move struct {
	Remove []string        `json:"remove"`
	Bind   []model.Bind    `json:"bind,omitempty"`
	Create []model.NewNode `json:"create,omitempty"`
	Saves  float64         `json:"saves"`           // USD an hour; above zero, unless the price of a removed node is not known
	Frees  float64         `json:"frees,omitempty"` // USD an hour: the on-demand price of the reserved capacity that becomes free for other nodes
	Moved  int             `json:"moved"`           // pods
}

// Verdict is why a candidate is kept.
type Verdict struct {
	Node string        `json:"node"`
	Why  reason.Reason `json:"why"`
}

// Search is Consolidate with limits for its parts. If planning for the whole cluster is cut short and has found
// nothing, the step search still runs (decision 0025).
func Search(q Question, l Limits) Consolidation {
	stop, joint, single := eitherStop(l.Stop, nil), eitherStop(l.Stop, l.Joint), eitherStop(l.Stop, l.Single)
	g := compileCluster(q, nil, stop)
	if g == nil {
		return timedOutConsolidation(q)
	}
	second := g.model.Fork()
	var one, whole *mover
	var moves []Move
	var stays *keepReasons
	parallel.Each(2, q.Policy.Workers, func(i int) {
		if i == 0 {
			one = g.newMover(g.model, nil, joint)
			one.removeAll()
		} else {
			whole, moves, stays = g.planWholeCluster(second, joint)
		}
	})
	out := Consolidation{Moves: one.moves, Bound: one.lowerBound(), Examined: one.examined, Partial: one.state.Stopped || stays.stopped}
	used := one
	found := g.selectStableMoves(out.Moves, moves, single)
	if out.Moves = found.moves; found.second {
		used = whole
	}
	out.Partial = out.Partial || found.stopped
	out.Limited = one.trimmed || whole.trimmed
	simple := false
	if !out.Partial || len(out.Moves) == 0 && !single() {
		found := g.compareWithSteps(q, out.Moves, single)
		out.Moves, simple, out.Unreached = found.moves, found.simple, found.unreached
		out.Partial, out.Limited = out.Partial || found.stopped, out.Limited || found.limited
	}
	one.spreadSpot(out.Moves)
	coupled := hasCoupledPods(used.model)
	out.Loose = !coupled && !simple
	if out.Loose { // then the order does not affect topology rules
		slices.SortStableFunc(out.Moves, func(a, b Move) int {
			return cmp.Compare(b.Saves*float64(1+a.Moved), a.Saves*float64(1+b.Moved))
		})
	}
	out.Before = remainingCost(one.model.View)
	out.After = out.Before - totalSaved(out.Moves)
	out.Kept = one.explainKept(&out, stays)
	if len(out.Moves) == 0 && !out.Partial {
		g.namePreferences(out.Kept, single)
	}
	return out
}

// remainingCost is the cost of the nodes that are not being deleted.
func remainingCost(view *cluster.Snapshot) float64 {
	total := 0.0
	for i := 0; view != nil && i < len(view.Nodes); i++ {
		if !view.Nodes[i].Deleting {
			total += view.Nodes[i].Price
		}
	}
	return total
}

// timedOutConsolidation is the result when time was up before the cluster was read: every candidate is kept.
func timedOutConsolidation(q Question) Consolidation {
	out := Consolidation{Partial: true}
	out.Before = remainingCost(q.View)
	out.After = out.Before
	for _, name := range slices.Sorted(slices.Values(q.Candidates)) {
		out.Kept = append(out.Kept, Verdict{Node: name, Why: reason.Reason{Code: reason.OutOfTime, Subject: "node/" + name}})
	}
	return out
}

// hasCoupledPods reports whether the placement of one pod may depend on that of another.
func hasCoupledPods(m *model.Model) bool {
	return slices.ContainsFunc(m.Groups, func(g *model.Group) bool { return g.OrderMatters() })
}

func totalSaved(moves []Move) float64 {
	total := 0.0
	for i := range moves {
		total += moves[i].Saves
	}
	return total
}

// removeAll removes the nodes whose pods fit on others: empty nodes first, then the most overpriced. Among equals,
// those come first that save most for each pod that moves.
func (v *mover) removeAll() {
	list := make([]int, 0, len(v.removable))
	for n, may := range v.removable {
		if may {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(bitset.Bit(len(v.pods[b]) == 0), bitset.Bit(len(v.pods[a]) == 0)),
			cmp.Compare(v.overpricing[b], v.overpricing[a]),
			cmp.Compare(len(v.pods[a]), len(v.pods[b])),
		)
	})
	v.examined = len(v.stuck)
	gone := map[string]int{}
	for _, n := range list {
		if v.state.ShouldStop() {
			break
		}
		pool := v.model.Nodes[n].Source.Pool
		if most, limited := v.maxRemovals[pool]; limited && gone[pool] >= most {
			v.trimmed = true
			continue
		}
		v.examined++
		if v.receives[n] || !v.drainNode(n) {
			continue
		}
		gone[pool]++
		slices.SortFunc(v.binds, func(a, b model.Bind) int { return a.Pod.Compare(b.Pod) })
		v.moves = append(v.moves, Move{
			Remove: []string{v.model.Nodes[n].Source.Name}, Bind: slices.Clone(v.binds), Saves: v.price[n], Frees: v.reservedValue[n], Moved: len(v.pods[n]),
		})
	}
}

// explainKept returns why the other candidates are kept.
func (v *mover) explainKept(result *Consolidation, stays *keepReasons) []Verdict {
	goes := map[string]bool{}
	for i := range result.Moves {
		for _, name := range result.Moves[i].Remove {
			goes[name] = true
		}
	}
	var out []Verdict
	for n := range v.model.Nodes {
		name := v.model.Nodes[n].Source.Name
		if !v.candidate[n] || goes[name] {
			continue
		}
		why := reason.Reason{Subject: "node/" + name}
		switch pods := v.stuck[n]; {
		case pods > 0:
			why.Code, why.Have = reason.PodsStranded, strconv.Itoa(pods)
		case stays.stranded[name] || v.nothingLaunchable && len(v.pods[n]) > 0:
			why.Code, why.Have = reason.PodsStranded, strconv.Itoa(len(v.pods[n]))
		case stays.refused[name].Code != "":
			refused := stays.refused[name]
			why.Code, why.Have, why.Want = refused.Code, refused.Have, refused.Want
		case !v.model.Nodes[n].Source.Priced():
			why.Code = reason.PriceUnknown
		case result.Partial:
			why.Code = reason.OutOfTime
		default:
			why.Code, why.Have, why.Want = reason.NothingCheaper, dollars(v.price[n]), dollars(max(v.worth[n], 0))
		}
		out = append(out, Verdict{name, why})
	}
	slices.SortFunc(out, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func dollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 4, 64) }
