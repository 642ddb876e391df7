package browser

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// TestPage shows the page to one browser, a tab for each case. The cases run one after the other: a browser paints only the
// tab in front.
func TestPage(t *testing.T) {
	t.Parallel()
	open := newBrowser(t)
	for name, check := range map[string]func(visit){
		"WP-03: requests nothing from others":         testRequests,
		"WP-04: markup is text":                       testMarkup,
		"WP-05: the token of the address":             testTokenOfTheAddress,
		"WP-06: without a token":                      testWithoutToken,
		"WP-07: totals":                               testTotals,
		"WP-08: tiles and groups":                     testMap,
		"WP-09: keyboard":                             testKeyboard,
		"WP-09: a refresh moves nothing":              testCalmRefresh,
		"WP-10: explanations lead to each other":      testExplanation,
		"WP-11: decisions open":                       testTimeline,
		"WP-12: pending pods":                         testPending,
		"LG-29: savings by day, pool and namespace":   testSavings,
		"LG-30: older decisions":                      testOlderDecisions,
		"WP-13: what if":                              testWhatIf,
		"WP-14, LG-28: the chart is read out":         testChart,
		"WP-15: old data, failures and pause":         testFreshness,
		"WP-16: dark and light, with enough contrast": testThemes,
		"WP-17: 2,000 nodes":                          testManyNodes,
		"WP-18: on a phone":                           testPhone,
	} {
		t.Run(name, func(t *testing.T) { check(visit{t, open}) })
	}
}

// visit is a case, which opens pages in the browser of all.
type visit struct {
	*testing.T

	tab func(*testing.T, look) *page
}

func (v visit) open(l look) *page {
	v.Helper()
	return v.tab(v.T, l)
}

// noProblems fails if a script failed or the browser refused something.
func (p *page) noProblems() {
	p.t.Helper()
	_, problems := p.seen()
	for _, problem := range problems {
		if !strings.HasPrefix(problem, "Failed to load resource") { // a response that the case wants
			p.t.Errorf("the browser reported: %s", problem)
		}
	}
}

func testRequests(t visit) {
	s := newService(fleetOf(12))
	s.explain = func(about inspect.Subject) inspect.Document { return inspect.Document{Title: about.String()} }
	address := serve(t.T, s)
	p := t.open(look{})
	p.open(address)
	p.refresh()
	eval[bool](p, "(document.querySelector('button.tile').click(), document.querySelector('#whatif-run').click(), true)")
	p.wait("document.querySelector('#whatif-result dl') && document.querySelector('#drawer .answer')")
	requests, _ := p.seen()
	origin, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		u, err := url.Parse(r)
		if err != nil || u.Host != origin.Host || !strings.HasPrefix(u.Path, "/debug/") {
			t.Errorf("%s was requested, want only the page and its endpoints", r)
		}
		if strings.Contains(r, goodToken) && strings.Contains(u.RequestURI(), goodToken) {
			t.Errorf("%s has the token, want it in a header alone", r)
		}
	}
	if len(requests) < 12 {
		t.Errorf("%d requests were seen, want those of the page, its assets and endpoints", len(requests))
	}
	p.noProblems()
}

func testMarkup(t visit) {
	const attack = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`
	s := newService(fleetOf(6))
	s.fleet = func(f *inspect.Fleet) {
		n := &f.Nodes[0]
		n.Name, n.Pool, n.InstanceType, n.Zone, n.Drift = attack, attack, attack, attack, attack
		n.Blocked = &inspect.Finding{Text: attack}
		f.Pending = []inspect.Pending{{Pod: attack, Since: f.At, Why: []inspect.Finding{{Text: attack, Fix: attack}}}}
	}
	s.explain = func(inspect.Subject) inspect.Document {
		return inspect.Document{Title: attack, Answer: attack, Sections: []inspect.Section{{Title: attack, Lines: []string{attack}, Columns: []string{attack}, Rows: [][]string{{attack}}}}}
	}
	detail, err := json.Marshal(map[string]any{attack: []any{attack, map[string]string{attack: attack}}})
	if err != nil {
		t.Fatal(err)
	}
	s.past = inspect.History{Notes: []string{attack}, Events: []inspect.Event{{At: time.Now(), Kind: attack, Text: attack, ID: attack, Objects: []string{attack}, Detail: detail}}}
	s.plan = func(inspect.WhatIf) (inspect.Changes, error) { return inspect.Changes{}, errors.New(attack) }
	p := t.open(look{})
	p.open(serve(t.T, s))
	for _, show := range []string{
		`document.querySelector('#pending button').click()`, `document.querySelector('#timeline button').click()`,
		`document.querySelector('#whatif-run').click()`, `[...document.querySelectorAll('button.tile')].find((t) => t.node.drift).focus()`,
	} {
		eval[bool](p, "("+show+", true)")
		p.wait(`document.querySelector('#whatif-result .line')?.innerText !== 'Planning …'`)
		p.wait(`!document.querySelector('#drawer-body').innerText.startsWith('Loading')`)
	}
	p.wait(`document.querySelector('#whatif-result .problem')?.innerText.includes('onerror')`)
	for _, place := range []string{"#map", "#pending", "#timeline", "#timeline-empty", "#drawer-body", "#whatif-result"} {
		if text := p.text(place); !strings.Contains(text, `<img src=x onerror`) && place != "#map" {
			t.Errorf("%s shows %q, want the markup as text", place, text)
		}
	}
	if n := eval[int](p, "document.querySelectorAll('img, script:not([src]), [onerror]').length"); n != 0 {
		t.Errorf("%d elements were made of markup, want none", n)
	}
	if eval[bool](p, "window.hacked === 1") {
		t.Error("a script of the cluster was executed")
	}
}

func testTokenOfTheAddress(t visit) {
	address := serve(t.T, newService(fleetOf(3)))
	p := t.open(look{})
	p.open(address)
	if got := eval[string](p, "location.href"); got != address {
		t.Errorf("the address is %s, want %s: without the token", got, address)
	}
	if n := eval[int](p, "history.length"); n > 2 {
		t.Errorf("the history has %d entries, want that with the token replaced", n)
	}
	p.do(chromedp.Reload())
	p.wait("!document.querySelector('#main').hidden")
	eval[bool](p, "(document.querySelector('#forget').click(), true)")
	p.wait("!document.querySelector('#token-view').hidden")
	if left := eval[string](p, "JSON.stringify([Object.keys(sessionStorage), Object.keys(localStorage), document.cookie])"); left != `[[],[],""]` {
		t.Errorf("after it was forgotten, the browser stores %s", left)
	}
	if html := eval[string](p, "document.documentElement.outerHTML"); strings.Contains(html, "ip-10-0-0-") || strings.Contains(html, "leader dovetail-0") {
		t.Error("after the token was forgotten, the page still has data")
	}
	p.noProblems()
}

func testWithoutToken(t visit) {
	p := t.open(look{})
	p.do(chromedp.Navigate(serve(t.T, newService(fleetOf(3)))))
	p.wait("!document.querySelector('#token-view').hidden")
	if got := eval[string](p, "document.activeElement.id"); got != "token-input" {
		t.Errorf("the focus is on %q, want the field for the token", got)
	}
	if text := p.text("#token-view"); !strings.Contains(text, "kubectl create token") || !strings.Contains(text, "--non-resource-url=/debug/decisions") {
		t.Errorf("the page shows %q, want the commands that create a token", text)
	}
	for token, want := range map[string]string{"wrong": "a bearer token of this cluster is needed", "forbidden": "may not read this"} {
		p.submitToken(token)
		p.wait("document.querySelector('#token-why').innerText.includes('" + want + "')")
		if !eval[bool](p, "document.querySelector('#main').hidden") {
			t.Errorf("with the token %s, data is shown", token)
		}
	}
	p.submitToken(goodToken)
	p.wait("!document.querySelector('#main').hidden && document.querySelector('#token-view').hidden")
}

func (p *page) submitToken(token string) {
	p.t.Helper()
	p.do(chromedp.SetValue(chromedp.CSS("#token-input"), token))
	eval[bool](p, "(document.querySelector('#token-form').requestSubmit(), true)")
}

func testTotals(t visit) {
	s := newService(fleetOf(12))
	s.fleet = func(f *inspect.Fleet) { f.Totals.Hourly, f.Totals.Bound = 10, 8 }
	p := t.open(look{})
	p.open(serve(t.T, s))
	totals := p.text("#totals")
	for _, want := range []string{"$10.00/h", "$7,300/month", "25 %", "$2.00/h of $8.00/h", "Nodes\n12", "Pending\n3"} {
		if !strings.Contains(totals, want) {
			t.Errorf("the totals are %q, want %q in them", totals, want)
		}
	}
	s.set(func(s *service) { s.fleet = func(f *inspect.Fleet) { f.Totals.Bound = 0 } })
	p.refresh()
	if totals := p.text("#totals"); !strings.Contains(totals, "the lower bound is not known") {
		t.Errorf("the totals are %q, want that the bound is not known", totals)
	}
	s = newService(fleetOf(12)) // a fleet has no bound: the page plans for it
	s.plan = nil
	p = t.open(look{})
	p.open(serve(t.T, s))
	p.wait("document.querySelector('#totals').innerText.includes('/h of $')")
	p.wait("document.querySelector('#pending').innerText.includes('Planned: a new ')")
	p.noProblems()
}

func testMap(t visit) {
	s := newService(fleetOf(60))
	s.fleet = lively
	p := t.open(look{})
	p.open(serve(t.T, s))
	count := func(selector string) int { return eval[int](p, "document.querySelectorAll('"+selector+"').length") }
	if got := count("#map button.tile"); got != 60 {
		t.Errorf("there are %d tiles, want 60", got)
	}
	if got := eval[string](p, "[...document.querySelectorAll('#map h3')].map((h) => h.innerText).join()"); got != "batch,data,default" {
		t.Errorf("the groups are %s, want the NodePools", got)
	}
	for _, state := range []string{"Ready", "NotReady", "Removing", "Launching"} {
		if count("#map .tile[data-state="+state+"]") == 0 {
			t.Errorf("no tile is marked as %s", state)
		}
	}
	if count("#map .tile[data-blocked]") == 0 {
		t.Error("no tile is marked as blocked")
	}
	if wrong := eval[int](p, `[...document.querySelectorAll('#map .tile')].filter((t) => { const u = t.node.use; const share = Math.max(u.cpu.requested / u.cpu.allocatable, u.memory.requested / u.memory.allocatable); return t.style.getPropertyValue('--level') !== Math.round(Math.min(1, share) * 100) + '%' }).length`); wrong != 0 {
		t.Errorf("%d tiles are not coloured by how much is requested", wrong)
	}
	p.do(chromedp.SetValue(chromedp.CSS("#group-by"), "type"))
	eval[bool](p, "document.querySelector('#group-by').dispatchEvent(new Event('input', {bubbles: true}))")
	p.wait("document.querySelector('#map h3').innerText === 'c5.xlarge'")
	if got := count("#map button.tile"); got != 60 {
		t.Errorf("grouped by type there are %d tiles, want 60", got)
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#filter"), "m7g us-east-1b"))
	p.wait("document.querySelector('#filter-count').innerText.includes('of 60 nodes match')")
	if wrong := eval[int](p, `[...document.querySelectorAll('#map .tile')].filter((t) => (t.node.instanceType.startsWith('m7g') && t.node.zone === 'us-east-1b') === (t.dataset.dim === 'true')).length`); wrong != 0 {
		t.Errorf("%d tiles are dimmed although they match, or not although they do not", wrong)
	}
	p.noProblems()
}

func testKeyboard(t visit) {
	s := newService(fleetOf(30))
	s.explain = func(about inspect.Subject) inspect.Document {
		return inspect.Document{Title: about.String(), Answer: "It is here because of " + about.Name}
	}
	p := t.open(look{})
	p.open(serve(t.T, s))
	focused := func() string {
		return eval[string](p, "document.activeElement.node?.name ?? document.activeElement.id ?? ''")
	}
	p.press(kb.Tab)
	if got := eval[string](p, "document.activeElement.className"); got != "skip" {
		t.Fatalf("Tab goes to %q first, want the link that skips to the fleet", got)
	}
	p.press(kb.Enter)
	p.wait("document.activeElement.id === 'fleet-title'")
	for range 5 { // two selects, colour, filter, and the first tile
		p.press(kb.Tab)
	}
	names := eval[[]string](p, "[...document.querySelectorAll('#map .tile')].map((t) => t.node.name)")
	if focused() != names[0] {
		t.Fatalf("the focus is on %q, want the first tile %q", focused(), names[0])
	}
	if !eval[bool](p, "!document.querySelector('#card').hidden && document.querySelector('#card').innerText.includes(document.activeElement.node.name)") {
		t.Error("the focus shows no details of the node")
	}
	p.press(kb.ArrowRight)
	if focused() != names[1] {
		t.Errorf("right goes to %q, want %q", focused(), names[1])
	}
	p.press(kb.ArrowDown)
	below := eval[bool](p, "document.activeElement.getBoundingClientRect().top > [...document.querySelectorAll('#map .tile')][1].getBoundingClientRect().top")
	p.press(kb.ArrowUp)
	if !below || focused() != names[1] {
		t.Errorf("down and up go to %q, want a row below and back to %q", focused(), names[1])
	}
	p.press(kb.End)
	if focused() != names[len(names)-1] {
		t.Errorf("End goes to %q, want %q", focused(), names[len(names)-1])
	}
	p.press(kb.Enter)
	p.wait("document.querySelector('#drawer').open && document.querySelector('#drawer .answer')")
	if text := p.text("#drawer"); !strings.Contains(text, "It is here because of "+names[len(names)-1]) {
		t.Errorf("Enter shows %q, want the explanation of the node", text)
	}
	p.press(kb.Escape)
	p.wait("!document.querySelector('#drawer').open")
	if focused() != names[len(names)-1] {
		t.Errorf("after Escape the focus is on %q, want the tile it came from", focused())
	}
	if outline := eval[string](p, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("the focus is not visible")
	}
	if lost := eval[[]string](p, `[...document.querySelectorAll('button, input, select, textarea, section, [role=group]')].filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length || e.innerText?.trim() || e.closest('[hidden]') || e.getAttribute('class') === 'group' || e.classList.contains('subgroup'))).map((e) => e.outerHTML.slice(0, 80))`); len(lost) > 0 {
		t.Errorf("these have no name for screen readers: %s", strings.Join(lost, "\n"))
	}
	p.noProblems()
}

func testCalmRefresh(t visit) {
	s := newService(fleetOf(30))
	s.past = past()
	p := t.open(look{})
	p.open(serve(t.T, s))
	p.refresh()
	eval[bool](p, `(() => {
		window.shifts = [];
		new PerformanceObserver((list) => list.getEntries().forEach((e) => e.sources.forEach((s) => {
			// Entries of lists make room for a new one; nothing else may move.
			if (!s.node?.parentElement?.closest('#timeline, #pending')) window.shifts.push(s.node?.id || s.node?.className || s.node?.nodeName);
		}))).observe({type: 'layout-shift'});
		window.tile = document.querySelectorAll('#map .tile')[3];
		window.tile.focus();
		return true;
	})()`)
	s.set(func(s *service) {
		s.fleet = func(f *inspect.Fleet) {
			f.Totals.Hourly, f.Totals.Bound, f.Totals.Nodes = 123456.78, 3, 12345
			lively(f)
			f.Pending[0].Why = []inspect.Finding{{Text: strings.Repeat("a long reason ", 20)}}
		}
		s.past.Events = append(s.past.Events, inspect.Event{At: time.Now(), Kind: "command", Text: "a node is removed"})
		s.fail = nil
	})
	p.refresh()
	p.wait("document.querySelector('#totals').innerText.includes('12,345')")
	s.set(func(s *service) { s.fail = errors.New("the cache has not synced") })
	p.refresh()
	p.wait("!document.querySelector('#failure').hidden")
	eval[bool](p, "(requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = true })), true)")
	p.wait("window.painted")
	if !eval[bool](p, "document.activeElement === window.tile") {
		t.Error("the refresh moved the focus")
	}
	if shifts := eval[[]string](p, "window.shifts.filter((s) => s !== 'freshness')"); len(shifts) > 0 {
		t.Errorf("the refresh moved %v", shifts)
	}
}
