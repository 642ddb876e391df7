package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // draws the same values in every run
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// TV-01, TV-02, TV-03: every view, on terminals of three sizes.
func TestTV_01_Views(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]string{
		"nodes": "", "pools": "2", "pending": "3 down", "activity": "4", "help": "?",
		"explain": "down enter", "filtered": "/ s p o t space z o n e = 1 a enter", "typing": "/ n o n e", "sorted": "s s s s s s s s s r",
	} {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				c := newScreen(t, serviceOf(mixed(30)), 0, size[0], size[1])
				c.press(keys)
				c.check(name)
				golden(t, fmt.Sprintf("%s-%dx%d.txt", name, size[0], size[1]), c.frame())
			})
		}
	}
}

// Keys lead to what they say.
func TestTV_04_Keys(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keys string
		want []string // parts of the screen
		not  []string
	}{
		"TV-04: down selects the next row":                         {keys: "down down", want: []string{"› ip-10-0-0-1 "}},
		"TV-04: end selects the last row":                          {keys: "G", want: []string{"› ip-10-0-0-8 ", "30 of 30"}},
		"TV-04: home goes back":                                    {keys: "end home", want: []string{"› claim-ip-10-0-0-9 ", "1-16 of 30"}},
		"TV-04: enter explains, and esc goes back":                 {keys: "enter esc", want: []string{"[1 Nodes 30]"}, not: []string{"because of a test"}},
		"TV-04: enter explains a node":                             {keys: "down enter", want: []string{"node/ip-10-0-0-0.ec2.internal", "because of a test"}},
		"TV-04: enter explains a NodeClaim without a Node":         {keys: "/ l a u n c h enter enter", want: []string{"nodeclaim/claim-ip-10-0-0-9.ec2.internal"}},
		"TV-04: enter explains a pod":                              {keys: "3 enter", want: []string{"pod/default/huge-0000"}},
		"TV-04: enter explains a NodePool":                         {keys: "2 end enter", want: []string{"nodepool/default"}},
		"TV-04: nodes without a NodePool are not explained as one": {keys: "2 home enter", want: []string{"› (none)"}},
		"TV-04: enter explains a pod that has to leave":            {keys: "4 down enter", want: []string{"pod/default/web-0001-0"}},
		"TV-04: tab goes through the views":                        {keys: "tab tab tab tab tab", want: []string{"[1 Nodes 30]"}},
		"TV-05: sorted by the next column":                         {keys: "s", want: []string{"POOL ▲"}},
		"TV-05: numbers start with the largest":                    {keys: "s s s s s", want: []string{"AGE ▼"}},
		"TV-05: reversed":                                          {keys: "r", want: []string{"NAME ▼", "› ip-10-0-0-8 "}},
		"TV-05: the column before the first is the last":           {keys: "S", want: []string{"STATE ▲"}},
		"TV-05: sorting starts at the first row":                   {keys: "end r", want: []string{"1-16 of 30"}},
		"TV-06: a filter looks in all columns":                     {keys: "/ D R I F T enter", want: []string{"[1 Nodes 30 (1)]", "Drifted", "/DRIFT"}},
		"TV-06: and in one":                                        {keys: "/ p o o l = b a t enter", want: []string{"[1 Nodes 30 (14)]"}},
		"TV-06: all words have to match":                           {keys: "/ p o o l = b space z o n e = 1 a enter", want: []string{"[1 Nodes 30 (5)]"}},
		"TV-06: an unknown key is text":                            {keys: "/ x = y enter", want: []string{"No node matches x=y."}},
		"TV-06: esc clears it":                                     {keys: "/ x x enter esc", want: []string{"[1 Nodes 30]"}},
		"TV-06: backspace takes a letter":                          {keys: "/ d r i f t x backspace enter", want: []string{"[1 Nodes 30 (1)]"}},
		"TV-06: letters are no commands while it is typed":         {keys: "/ q ? s 2", want: []string{"/q?s2"}},
		"TV-06: every view has its own":                            {keys: "/ d r i f t enter 2", want: []string{"[2 Pools 3]"}},
		"TV-07: bars of another resource":                          {keys: "b", want: []string{"MEMORY", "DISK"}, not: []string{"CPU  "}},
		"TV-07: bars go round":                                     {keys: "b b b b", want: []string{"CPU  ", "MEMORY"}},
		"TV-08: messages":                                          {keys: "e", want: []string{"All responses are complete."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScreen(t, serviceOf(mixed(30)), 0, 80, 24)
			c.press(tc.keys)
			for _, want := range tc.want {
				if !strings.Contains(c.frame(), want) {
					t.Errorf("%q is not on the screen:\n%s", want, c.frame())
				}
			}
			for _, not := range tc.not {
				if strings.Contains(c.frame(), not) {
					t.Errorf("%q is on the screen:\n%s", not, c.frame())
				}
			}
		})
	}
}

// TV-02, TV-17: a screen never breaks the terminal, whatever is shown and whatever is pressed.
func TestTV_02_NothingIsWiderThanTheTerminal(t *testing.T) {
	t.Parallel()
	keys := []string{
		"up", "down", "pgup", "pgdown", "home", "end", "enter", "esc", "tab", "left", "right", "1", "2", "3", "4", "5", "s", "S", "r", "R", "b", "e", "?", "/", "a", "=", "日", "backspace", "space", "ctrl+u", "f5",
	}
	rapid.Check(t, func(t *rapid.T) {
		c := &screen{t: testing.TB(nil), now: time.Unix(1e9, 0)}
		fleet, changes := fleets().Draw(t, "fleet"), inspect.Changes{Before: inspect.Totals{Bound: rapid.Float64Range(0, 9).Draw(t, "bound")}}
		fail := rapid.Bool().Draw(t, "fails later")
		r := requests{
			fleet: func() tea.Msg { return fleetMsg{response: response{at: c.now}, fleet: fleet} },
			plan:  func() tea.Msg { return planMsg{response: response{at: c.now}, changes: changes} },
			explain: func(s inspect.Subject) tea.Cmd {
				return func() tea.Msg {
					return explainMsg{response: response{at: c.now}, about: s, document: documents().Draw(t, "document")}
				}
			},
		}
		c.model = newModel(r, time.Second)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				c.send(tea.WindowSizeMsg{Width: rapid.IntRange(0, 220).Draw(t, "width"), Height: rapid.IntRange(0, 50).Draw(t, "height")})
			case 1:
				c.pass(2 * time.Second)
			case 2:
				if fail {
					c.send(fleetMsg{response: response{at: c.now, err: errors.New(names().Draw(t, "error"))}})
				}
			default:
				c.press(rapid.SampledFrom(keys).Draw(t, "key"))
			}
			lines := c.model.lines()
			if c.model.width > 0 && len(lines) != c.model.height {
				t.Fatalf("%d lines on a terminal of %d", len(lines), c.model.height)
			}
			for _, l := range lines {
				if w := widthOf(stripped(l)); w > c.model.width {
					t.Fatalf("%d wide on a terminal of %d: %q", w, c.model.width, l)
				}
				if i := strings.IndexFunc(stripped(l), func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
					t.Fatalf("a control character on the screen: %q", l)
				}
			}
		}
	})
}

func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[a-z]{1,12}(-[a-z0-9]{1,8}){0,6}(\.[a-z]{1,9}){0,4}`), rapid.String(), rapid.Just("節点-日本\x1b[2J\n\t"), rapid.Just(""))
}

func fleets() *rapid.Generator[inspect.Fleet] {
	return rapid.Custom(func(t *rapid.T) inspect.Fleet {
		at := time.Unix(1e9, 0)
		f := inspect.Fleet{At: at, Source: names().Draw(t, "source"), Totals: inspect.Totals{Use: map[string]inspect.Use{}}}
		for range rapid.IntRange(0, 40).Draw(t, "nodes") {
			n := inspect.Node{
				Name: names().Draw(t, "name"), Pool: names().Draw(t, "pool"), InstanceType: names().Draw(t, "type"), Zone: names().Draw(t, "zone"), CapacityType: names().Draw(t, "market"),
				State: rapid.SampledFrom([]inspect.State{inspect.Ready, inspect.NotReady, inspect.Removing, inspect.Launching, inspect.Initializing}).Draw(t, "state"),
				Drift: names().Draw(t, "drift"), Moving: rapid.SliceOfN(names(), 0, 4).Draw(t, "moving"), Use: map[string]inspect.Use{},
			}
			for _, resource := range []string{cpu, memory, "nvidia.com/gpu", "pods"} {
				u := inspect.Use{Requested: rapid.Int64Range(0, 9000).Draw(t, "requested"), Allocatable: rapid.Int64Range(0, 9000).Draw(t, "allocatable")}
				n.Use[resource] = u
				f.Totals.Use[resource] = u
			}
			if rapid.Bool().Draw(t, "priced") {
				n.Price = new(rapid.Float64Range(0, 1e4).Draw(t, "price"))
				n.Created = new(at.Add(-time.Duration(rapid.Int64Range(0, 1e17).Draw(t, "age"))))
				f.Totals.Hourly += *n.Price
			} else {
				f.Totals.Unpriced++
			}
			f.Totals.Nodes++
			f.Nodes = append(f.Nodes, n)
		}
		f.Pools = []inspect.Pool{{Name: names().Draw(t, "pool"), Totals: f.Totals, Closed: names().Draw(t, "closed")}}
		f.Pending = []inspect.Pending{{Pod: names().Draw(t, "pod"), Since: at, Why: []inspect.Finding{{Text: names().Draw(t, "why")}}}}
		return f
	})
}

func documents() *rapid.Generator[inspect.Document] {
	return rapid.Custom(func(t *rapid.T) inspect.Document {
		lines := rapid.SliceOfN(names(), 0, 5)
		return inspect.Document{
			Title: names().Draw(t, "title"), Answer: strings.Join(lines.Draw(t, "answer"), " "),
			Sections: []inspect.Section{{Title: names().Draw(t, "section"), Lines: lines.Draw(t, "lines"), Columns: lines.Draw(t, "columns"), Rows: [][]string{lines.Draw(t, "row"), lines.Draw(t, "row")}, Wide: rapid.IntRange(0, 3).Draw(t, "wide")}},
		}
	})
}

// Columns are left out by importance.
func TestTV_03_Columns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		width int
		keys  string
		want  string
	}{
		"TV-03: 20 columns":                 {width: 20, want: "NAME ▲"},
		"TV-03: 40 columns":                 {width: 40, want: "NAME ▲ CPU $/HOUR"},
		"TV-03: 80 columns":                 {width: 80, want: "NAME ▲ TYPE CPU MEMORY $/HOUR STATE"},
		"TV-03: 80 columns, sorted by zone": {width: 80, keys: "s s s", want: "NAME ZONE ▲ CPU MEMORY $/HOUR STATE"},
		"TV-03: 120 columns":                {width: 120, want: "NAME ▲ POOL TYPE CAPACITY AGE PODS CPU MEMORY $/HOUR STATE"},
		"TV-03: 200 columns":                {width: 200, want: "NAME ▲ POOL TYPE ZONE CAPACITY AGE PODS CPU MEMORY $/HOUR STATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScreen(t, serviceOf(mixed(30)), 0, tc.width, 24)
			c.press(tc.keys)
			if got := strings.Join(strings.Fields(stripped(c.model.nodes.header(tc.width))), " "); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if full := strings.Contains(c.frame(), "ip-10-0-0-1.ec2.internal"); full != (tc.width >= 200) {
				t.Errorf("names with their domain: %v\n%s", full, c.frame())
			}
		})
	}
}

// What could not be read is said.
func TestTV_08_IncompleteResponses(t *testing.T) {
	t.Parallel()
	f := mixed(5)
	f.Missing = []snapshot.Missing{{What: "persistentvolumes", Why: "forbidden", Then: "zones of volumes are not known; ask for the ClusterRole view"}}
	c := newScreen(t, serviceOf(f), 0, 80, 24)
	if !strings.Contains(c.frame(), "Incomplete; e: details. persistentvolumes") {
		t.Errorf("it is not said that something is missing:\n%s", c.frame())
	}
	c.press("e")
	if !strings.Contains(strings.Join(strings.Fields(c.frame()), " "), "ask for the ClusterRole view") {
		t.Errorf("it is not said in full:\n%s", c.frame())
	}
}

// A response that is late or fails leaves the last good one, and the keys work.
func TestTV_09_SlowAndFailingResponses(t *testing.T) {
	t.Parallel()
	s := serviceOf(mixed(30))
	c := newScreen(t, s, 2*time.Second, 100, 24)
	c.hold = true
	c.pass(10 * time.Second)
	c.press("down")
	if got := c.frame(); !strings.Contains(got, "› ip-10-0-0-0 ") || !strings.Contains(got, "waiting for 8s") {
		t.Errorf("the keys wait for the response, or it is not said that it is late:\n%s", got)
	}
	if len(c.held) != 1 {
		t.Errorf("%d requests are awaited at once, want 1", len(c.held))
	}
	s.fail = errors.New("cannot reach the leader dovetail-0: connection refused; check that it runs")
	c.release()
	got := c.frame()
	for _, want := range []string{"30 nodes", " ago", "Next try in", "cannot reach the leader"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not on the screen:\n%s", want, got)
		}
	}
	c.check("after an error")
	c.press("e")
	if !strings.Contains(c.frame(), "check that it runs") {
		t.Errorf("the messages lack the error in full:\n%s", c.frame())
	}
	c.press("esc")
	before := s.calls["fleet"]
	c.pass(60 * time.Second)
	if tries := s.calls["fleet"] - before; tries < 2 || tries > 5 {
		t.Errorf("%d tries in a minute of failures, want 2 to 5", tries)
	}
	s.fail = nil
	c.press("R")
	if got := c.frame(); strings.Contains(got, "cannot reach") || !strings.Contains(got, "30 nodes") {
		t.Errorf("the error stays after a good response:\n%s", got)
	}
}

func TestTV_09_FirstResponseFails(t *testing.T) {
	t.Parallel()
	s := serviceOf(mixed(5))
	s.fail = errors.New("forbidden: get nodes; ask for the ClusterRole view")
	c := newScreen(t, s, 0, 80, 24)
	golden(t, "unreadable-80x24.txt", c.frame())
	s.fail = nil
	c.pass(5 * time.Second)
	if !strings.Contains(c.frame(), "5 nodes") {
		t.Errorf("a file that could not be read is not read again:\n%s", c.frame())
	}
}

// Requests wait for the response before, and are the rarer the longer that takes. A file is read once.
func TestTV_10_Requests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		every       time.Duration
		fleet, plan int
	}{
		"TV-10: every two seconds":       {every: 2 * time.Second, fleet: 61, plan: 3},
		"TV-10: every thirty seconds":    {every: 30 * time.Second, fleet: 5, plan: 3},
		"TV-10: a file does not change":  {fleet: 1, plan: 1},
		"TV-10: plans are never hurried": {every: 2 * time.Minute, fleet: 2, plan: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serviceOf(mixed(3))
			c := newScreen(t, s, tc.every, 80, 24)
			c.pass(2 * time.Minute)
			if s.calls["fleet"] != tc.fleet || s.calls["plan"] != tc.plan {
				t.Errorf("%d requests of fleets and %d of plans in two minutes, want %d and %d", s.calls["fleet"], s.calls["plan"], tc.fleet, tc.plan)
			}
		})
	}
	a := requestState{}
	a.recordResponse(response{at: time.Unix(100, 0), took: 5 * time.Second})
	if due := a.due(2 * time.Second); due != time.Unix(120, 0) {
		t.Errorf("after a response that took 5s, the next request is made at %v, want four times as long after it", due.Unix())
	}
}

// An open explanation is renewed with the fleet, and a late one of another object is not shown.
func TestTV_04_ExplanationsStayFresh(t *testing.T) {
	t.Parallel()
	s := serviceOf(mixed(10))
	c := newScreen(t, s, 2*time.Second, 80, 24)
	c.press("down enter")
	c.pass(10 * time.Second)
	if n := s.calls["explain node/ip-10-0-0-0.ec2.internal"]; n < 4 {
		t.Errorf("the explanation was requested %d times in 10s", n)
	}
	c.press("esc down")
	c.hold = true
	c.press("enter esc down enter")
	c.release()
	if !strings.Contains(c.frame(), "node/ip-10-0-0-2.ec2.internal") || strings.Contains(c.frame(), "ip-10-0-0-1.") {
		t.Errorf("another explanation is shown:\n%s", c.frame())
	}
}

// Pods that have left are counted, and the rows stay selected when the fleet changes.
func TestTV_11_PodsThatHaveLeft(t *testing.T) {
	t.Parallel()
	f := mixed(30)
	s := serviceOf(f)
	c := newScreen(t, s, 2*time.Second, 120, 30)
	c.press("4")
	if !strings.Contains(c.frame(), "0 of 3 pods moved") {
		t.Fatalf("the pods that have to leave are not counted:\n%s", c.frame())
	}
	pods := f.Objects.Pods[:0:0]
	for _, p := range f.Objects.Pods {
		if p.Name != "web-0001-0" {
			pods = append(pods, p)
		}
	}
	f.Objects.Pods = pods
	c.pass(4 * time.Second)
	if got := c.frame(); !strings.Contains(got, "1 of 3 pods moved") || strings.Contains(got, "web-0001-0") {
		t.Errorf("the pod that has left is not counted:\n%s", got)
	}
}

// Unknown prices are said.
func TestTV_12_UnknownPrices(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		totals inspect.Totals
		want   string
		width  int // 0: 100

		pending int
	}{
		"TV-12: all known":     {totals: inspect.Totals{Nodes: 2, Hourly: 1.5, Bound: 1}, want: "$1.50/h  $1,095/month  50% above the lower bound of $1.00/h"},
		"TV-12: some unknown":  {totals: inspect.Totals{Nodes: 2, Hourly: 1.5, Unpriced: 1, Bound: 1}, want: "≥ $1.50/h  ≥ $1,095/month  1 node without a known price  lower bound $1.00/h"},
		"TV-12: none known":    {totals: inspect.Totals{Nodes: 2, Unpriced: 2}, want: "cost unknown  no price is known  no lower bound is known"},
		"TV-12: older plan":    {totals: inspect.Totals{Nodes: 2, Hourly: 1, Bound: 1.5}, want: "$1.00/h  $730/month  earlier lower bound $1.50/h"},
		"TV-18: no room":       {totals: inspect.Totals{Nodes: 2, Hourly: 1.5, Bound: 1}, pending: 1, want: "$1.50/h  $1,095/month  50% above the lower bound of $1.00/h", width: 70},
		"TV-18: pods pending":  {totals: inspect.Totals{Nodes: 2, Hourly: 1.5, Bound: 1}, pending: 1, want: "$1.50/h  $1,095/month  50% above the lower bound of $1.00/h for running pods"},
		"TV-12: free of cost":  {totals: inspect.Totals{Nodes: 1, Bound: 0}, want: "$0.00/h  $0/month  no lower bound is known"},
		"TV-12: nothing there": {totals: inspect.Totals{}, want: "$0.00/h  $0/month  no lower bound is known"},
		"TV-12: narrow":        {totals: inspect.Totals{Nodes: 2, Hourly: 1.5, Bound: 1}, want: "$1.50/h  50% above the lower bound of $1.00/h", width: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(requests{}, 0)
			m.fleet, m.changes = &inspect.Fleet{Totals: tc.totals, Pending: make([]inspect.Pending, tc.pending)}, &inspect.Changes{}
			if m.width = tc.width; m.width == 0 {
				m.width = 100
			}
			if got := stripped(m.money()); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TV-01, TV-02: the real plan and explanations are drawn as they are.
func TestTV_01_SnapshotService(t *testing.T) {
	t.Parallel()
	s := serviceOf(mixed(30))
	c := newScreen(t, &s.Service, 0, 80, 24)
	for _, keys := range []string{"5", "pgdown", "1 enter", "pgdown", "esc 3 enter", "esc 2 end enter"} {
		c.press(keys)
		c.check(keys)
	}
	if c.model.changes == nil {
		t.Errorf("no plan was made: %v", c.model.ofPlan.err)
	}
}

func TestTV_14_Plain(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Print(context.Background(), serviceOf(mixed(12)), &b); err != nil {
		t.Fatal(err)
	}
	golden(t, "plain.txt", b.String())
}

// TV-01: the page for users shows the screen as it is.
func TestTV_01_TheHowToPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/how-to/watch-with-top.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "```text\n")
	_, after, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("the page has no screen")
	}
	c := newScreen(t, serviceOf(mixed(30)), 0, 100, 20)
	c.press("down down down")
	got := before + "```text\n" + c.frame() + "```\n" + after
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(string(text), got); d != "" {
		t.Errorf("%s (-page +screen):\n%s", page, d)
	}
}

// TV-02: rows without cells are no table, and no reason to panic on a narrow terminal.
func TestTV_02_RowsWithoutCells(t *testing.T) {
	t.Parallel()
	if got := tableLines(&inspect.Section{Rows: [][]string{{}, {}}, Wide: 1}, -1); len(got) != 0 {
		t.Errorf("got %d lines, want none", len(got))
	}
}
