package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Path is where the journal is served.
const Path = "/debug/decisions"

const (
	usualLimit = 100
	mostLimit  = 1000
	longest    = 253 // the longest name a node has
)

// Query selects what is returned. The zero Query requests the latest entries.
type Query struct {
	Since uint64 // entries after this one, oldest first; 0: the latest
	Limit int    // 0: 100
	Kind  Kind   // empty: all
	Node  string // or claim; empty: all
}

// ParseQuery reads the parameters of a request. What it does not know it refuses: a misspelt filter
// would show everything.
func ParseQuery(raw string) (Query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return Query{}, fmt.Errorf("the query cannot be read: %w", err)
	}
	q := Query{Limit: usualLimit}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) != 1 {
			return Query{}, fmt.Errorf("%q is given %d times; give it once", name, len(values[name]))
		}
		text := values[name][0]
		switch name {
		case "since":
			if q.Since, err = strconv.ParseUint(text, 10, 64); err != nil {
				return Query{}, fmt.Errorf("since=%q is not the seq of an entry", text)
			}
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostLimit {
				return Query{}, fmt.Errorf("limit=%q is not a number from 1 to %d", text, mostLimit)
			}
		case "kind":
			if q.Kind = Kind(text); !slices.Contains(Kinds(), q.Kind) {
				return Query{}, fmt.Errorf("kind=%q is unknown; use one of %s", text, kindNames())
			}
		case "node":
			if q.Node = text; text == "" || len(text) > longest {
				return Query{}, fmt.Errorf("node=%q is not the name of a Node or a NodeClaim", text)
			}
		default:
			return Query{}, fmt.Errorf("%q is unknown; use since, limit, kind or node", name)
		}
	}
	return q, nil
}

func kindNames() string {
	names := make([]string, 0, len(Kinds()))
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Page is the response to a query.
type Page struct {
	Entries []Entry   `json:"entries"` // oldest first
	Last    uint64    `json:"last"`    // of all entries; query since it for what comes later
	More    bool      `json:"more"`    // the limit left some out
	Dropped uint64    `json:"dropped"` // entries that are gone because room is limited
	Blocked []Refusal `json:"blocked"` // what keeps nodes now, longest first
	Total   int       `json:"blockedTotal"`
	Drains  []Drain   `json:"draining"` // terminating nodes that wait now, longest first
}

// Read runs a query.
func (j *Journal) Read(q Query) Page {
	j.mu.Lock()
	defer j.mu.Unlock()
	page := Page{Entries: []Entry{}, Blocked: []Refusal{}, Drains: []Drain{}, Last: j.seq, Dropped: j.dropped}
	limit := cmp.Or(q.Limit, usualLimit)
	for kind, r := range j.rings {
		if q.Kind != "" && q.Kind != kind {
			continue
		}
		for i := range r.entries {
			if e := &r.entries[i]; e.Seq > q.Since && (q.Node == "" || slices.Contains(e.nodes, q.Node)) {
				page.Entries = append(page.Entries, *e)
			}
		}
	}
	slices.SortFunc(page.Entries, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	if over := len(page.Entries) - limit; over > 0 {
		page.More = true
		if q.Since > 0 {
			page.Entries = page.Entries[:limit]
		} else {
			page.Entries = page.Entries[over:]
		}
	}
	if q.Kind == "" || q.Kind == Blocked {
		list := j.blocked.list(q.Node)
		page.Total = len(list)
		page.Blocked = append(page.Blocked, first(list, limit, new(bool))...)
	}
	if q.Kind == "" || q.Kind == Draining {
		page.Drains = append(page.Drains, first(j.draining(q.Node, j.now()), limit, new(bool))...)
	}
	return page
}

// Handler serves the journal as JSON. It does not check who may read it: wrap it in a Guard.
func (j *Journal) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
			return
		}
		q, err := ParseQuery(req.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text, err := json.MarshalIndent(j.Read(q), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(append(text, '\n')) // the client may have disconnected
	})
}
