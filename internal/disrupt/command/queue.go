package command

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
)

const (
	firstQueueDelay = time.Second     // until a new command is observed again
	maxQueueDelay   = 5 * time.Second // a failed replacement is noticed within this time (FM K07)
	endedTTL        = 10 * time.Minute
)

// Queue is the state of the commands of one process. It is not safe for concurrent use.
type Queue struct {
	Backoffs

	running      map[string]*running  // by token
	removing     map[string]string    // tokens, by the claims that are removed
	replacements map[string]string    // tokens, by the pending replacements
	urgent       map[string]bool      // tokens of commands that lost a replacement
	ended        map[string]time.Time // tokens of finished commands: the cache may still show them as running
}

// running is a command and when to observe it next.
type running struct {
	disrupt.Running

	due        time.Time
	wait       time.Duration
	lastEvents map[string]event.Reason // by replacement: the last event
}

// NewQueue returns an empty queue. The seed is that of the jitter of back-offs.
func NewQueue(seed uint64) *Queue {
	return &Queue{
		Backoffs: NewBackoffs(seed),
		running:  map[string]*running{}, removing: map[string]string{}, replacements: map[string]string{}, urgent: map[string]bool{}, ended: map[string]time.Time{},
	}
}

func (q *Queue) add(r disrupt.Running) {
	q.running[r.Token()] = &running{Running: r, lastEvents: map[string]event.Reason{}}
	for _, n := range r.Remove {
		q.removing[n.Claim] = r.Token()
	}
	for _, name := range r.ReplacementClaims {
		q.replacements[name] = r.Token()
	}
}

func (q *Queue) end(token string, now time.Time) {
	delete(q.running, token)
	delete(q.urgent, token)
	for _, list := range []map[string]string{q.removing, q.replacements} {
		maps.DeleteFunc(list, func(_, of string) bool { return of == token })
	}
	maps.DeleteFunc(q.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedTTL })
	q.ended[token] = now
}

// Running returns the running commands, by token.
func (q *Queue) Running() []disrupt.Running {
	out := make([]disrupt.Running, 0, len(q.running))
	for _, token := range slices.Sorted(maps.Keys(q.running)) {
		out = append(out, q.running[token].Running)
	}
	return out
}

// IsRunning reports whether a command runs.
func (q *Queue) IsRunning(token string) bool { return q.running[token] != nil }

// RecordLostReplacement records that a claim is terminating or gone. If a command waits for it, it reports true,
// and the command is due at once: its nodes stay, so its pods need no other place (G8).
func (q *Queue) RecordLostReplacement(claim string) bool {
	token, waited := q.replacements[claim]
	if waited {
		q.urgent[token] = true
	}
	return waited
}

// Due returns the tokens of the commands that have to be observed now.
func (q *Queue) Due(now time.Time) []string {
	var out []string
	for _, token := range slices.Sorted(maps.Keys(q.running)) {
		if q.urgent[token] || !q.running[token].due.After(now) {
			out = append(out, token)
		}
	}
	return out
}

// NextDue returns in what time a command is due, if there is one.
func (q *Queue) NextDue(now time.Time) (time.Duration, bool) {
	first, found := time.Duration(0), false
	// any order: the shortest time is the same
	for _, c := range q.running {
		if in := max(c.due.Sub(now), 0); !found || in < first {
			first, found = in, true
		}
	}
	return first, found
}

// BeginObserve returns a running command whose claims are to be read, and reports whether it runs. It is due again
// later, even if its claims cannot be read.
func (q *Queue) BeginObserve(token string, now time.Time) (disrupt.Running, bool) {
	c := q.running[token]
	if c == nil {
		return disrupt.Running{}, false
	}
	delete(q.urgent, token)
	c.wait = min(max(2*c.wait, firstQueueDelay), maxQueueDelay)
	c.due = now.Add(c.wait)
	return c.Running, true
}

// Observe takes a command as far as the state of its claims allows.
func (q *Queue) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []Effect {
	c := q.running[token]
	if c == nil {
		return nil
	}
	progress := c.Advance(seen, len(q.removing), now)
	var out []Effect
	if len(c.ReplacementClaims) > 0 {
		out = append(out, Nominate{c.ReplacementClaims})
	}
	if len(progress.Retained) > 0 {
		out = append(out, Release{progress.Retained})
	}
	switch progress.Stage {
	case disrupt.Waiting:
		return append(out, c.waitingEvents(progress.Pending, seen)...)
	case disrupt.Ready:
		return append(out, Delete{c.Running})
	case disrupt.Over:
		return append(out, q.finish(c, "nothing is left to remove", now)...)
	case disrupt.Broken:
		return append(out, q.fail(c, progress, now)...)
	}
	return out
}

// waitingEvents returns the events about pending replacements when what they wait for changes.
func (c *running) waitingEvents(pending []string, seen map[string]disrupt.ClaimStatus) []Effect {
	var out []Effect
	for _, name := range pending {
		news := event.Event{Reason: event.DisruptionLaunching, Text: "The node is launched to replace " + nodeNames(c.Remove) + ", reason " + string(c.Reason)}
		if seen[name].Launched {
			news = event.Event{Reason: event.DisruptionWaitingReadiness, Text: "Once the node is initialized, it replaces " + nodeNames(c.Remove)}
		}
		if c.lastEvents[name] != news.Reason {
			c.lastEvents[name] = news.Reason
			out = append(out, Awaited{name, news})
		}
	}
	return out
}

// nodeNames shows the nodes of a command.
func nodeNames(nodes []disrupt.Candidate) string {
	list := make([]string, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n.Node)
	}
	return strings.Join(list, ", ")
}

// Deleted continues a command whose claims were deleted, except those in failed: they are tried again.
func (q *Queue) Deleted(token string, failed map[string]bool, now time.Time) []Effect {
	c := q.running[token]
	if c == nil {
		return nil
	}
	all := c.Remove
	c.Remove = slices.DeleteFunc(slices.Clone(all), func(n disrupt.Candidate) bool { return !failed[n.Claim] })
	if len(c.Remove) > 0 {
		c.Failed = true
		return nil
	}
	q.RecordDriftSuccess(&c.Command, all)
	return q.finish(c, "done", now)
}

func (q *Queue) finish(c *running, how string, now time.Time) []Effect {
	q.end(c.Token(), now)
	return []Effect{Finished{c.Running}, Outcome{c.Command, how}, WakePass{}}
}

// fail gives up a command that cannot succeed. Replacements that are launched stay, as ordinary nodes (FM K08). Their
// marks of the command are removed before its nodes are released, so that no later process resumes it.
func (q *Queue) fail(c *running, p disrupt.Progress, now time.Time) []Effect {
	out := []Effect{Failed{c.Running, p.Why}}
	if p.Replacement {
		out = append(out, q.backOffDrift(&c.Command, now)...)
	}
	q.RecordFailure(c.Reason, now, c.Remove...)
	q.end(c.Token(), now)
	return append(out, UnmarkReplacements{c.ReplacementClaims}, Release{c.Remove}, Outcome{c.Command, "rolled back: " + p.Why}, WakePass{})
}

func (q *Queue) backOffDrift(c *disrupt.Command, now time.Time) []Effect {
	var out []Effect
	for _, pool := range q.RecordDriftFailure(c, now) {
		out = append(out, DriftBackedOff{pool})
	}
	return out
}
