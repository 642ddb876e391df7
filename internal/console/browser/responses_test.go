package browser

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func testExplanation(t visit) {
	s := newService(fleetOf(6))
	s.explain = func(about inspect.Subject) inspect.Document {
		return inspect.Document{Title: about.String(), Answer: "This is " + about.String() + ".", Sections: []inspect.Section{
			{Title: "Blocked by", Lines: []string{"pod/default/web-0-1 has no controller, see nodepool/default."}},
			{Title: "Alternatives", Columns: []string{"TYPE", "PRICE"}, Rows: [][]string{{"m7g.large", "$0.08"}, {"node/ip-10-0-0-4.ec2.internal", "$0.19"}}},
		}}
	}
	p := t.open(look{})
	p.open(serve(t.T, s))
	eval[bool](p, "(document.querySelector('#map .tile').click(), true)")
	p.wait("document.querySelector('#drawer .answer')?.innerText.startsWith('This is node/ip-10-0-')")
	if got := p.text("#drawer table"); got != "TYPE\tPRICE\nm7g.large\t$0.08\nnode/ip-10-0-0-4.ec2.internal\t$0.19" {
		t.Errorf("the table is %q", got)
	}
	if got := eval[[]string](p, "[...document.querySelectorAll('#drawer-body button')].map((b) => b.innerText)"); !slices.Equal(got, []string{"pod/default/web-0-1", "nodepool/default", "node/ip-10-0-0-4.ec2.internal"}) {
		t.Errorf("the links are %v", got)
	}
	eval[bool](p, "(document.querySelector('#drawer-body button').click(), true)")
	p.wait("document.querySelector('#drawer .answer')?.innerText === 'This is pod/default/web-0-1.'")
	s.set(func(s *service) { s.explain = nil })
	eval[bool](p, "(document.querySelectorAll('#drawer-body button')[1].click(), true)") // a NodePool that exists
	p.wait("document.querySelector('#drawer-title').innerText === 'nodepool/default' && document.querySelector('#drawer .answer')")
	eval[bool](p, "(document.querySelector('#drawer-back').click(), true)") // to the pod, which does not exist
	p.wait("document.querySelector('#drawer .problem')?.innerText.startsWith('pod/default/web-0-1 was not found.')")
	s.set(func(s *service) {
		s.explain = func(about inspect.Subject) inspect.Document {
			return inspect.Document{Answer: "This is " + about.String()}
		}
	})
	eval[bool](p, "(document.querySelector('#drawer-back').click(), true)")
	p.wait("document.querySelector('#drawer .answer')?.innerText.startsWith('This is node/')")
	p.noProblems()
}

func testTimeline(t visit) {
	s := newService(fleetOf(6))
	s.past = past()
	p := t.open(look{})
	p.open(serve(t.T, s))
	events := eval[[]string](p, "[...document.querySelectorAll('#timeline button')].map((b) => b.innerText)")
	if len(events) != len(s.past.Events) || !strings.Contains(events[0], "no node can be planned for pod default/huge-0000") {
		t.Fatalf("the timeline has %d events that begin with %q, want %d, the latest first", len(events), events[0], len(s.past.Events))
	}
	eval[bool](p, "([...document.querySelectorAll('#timeline button')].find((b) => b.innerText.includes('2 nodes are removed')).click(), true)")
	p.wait("document.querySelector('#drawer').open")
	text := p.text("#drawer")
	for _, want := range []string{"2 nodes are removed, their 5 pods fit on others", "Saves\n$0.384/h", "pod/default/web-5-0", "saves $0.38/h, more than the moves cost", "default/web-5-0, default/api-5-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the decision opens to %q, want %q in it", text, want)
		}
	}
	p.noProblems()
}

func testOlderDecisions(t visit) {
	s := newService(fleetOf(6))
	for i := range 450 {
		s.past.Events = append(s.past.Events, inspect.Event{At: snapshottest.Now().Add(time.Duration(i) * time.Minute), Kind: "removal", Text: fmt.Sprintf("node %d", i), Source: inspect.SourceLedger})
	}
	p := t.open(look{})
	p.open(serve(t.T, s))
	shown := func() int { return eval[int](p, "document.querySelectorAll('#timeline button').length") }
	if n := shown(); n != 200 {
		t.Errorf("%d decisions are shown, want 200", n)
	}
	eval[bool](p, "(document.querySelector('#timeline-more').focus(), true)")
	p.press(kb.Enter)
	p.wait("document.querySelectorAll('#timeline button').length === 450")
	if !eval[bool](p, "document.querySelector('#timeline-more').hidden") {
		t.Error("all are shown, and older ones are still offered")
	}
	p.noProblems()
}

func testSavings(t visit) {
	s := newService(fleetOf(6))
	s.savings = spent()
	p := t.open(look{})
	p.open(serve(t.T, s))
	p.wait("document.querySelector('#savings-rows tr')")
	rows := func() []string {
		return eval[[]string](p, "[...document.querySelectorAll('#savings-rows tr')].map((r) => [...r.children].map((c) => c.innerText).join(' | '))")
	}
	days := rows()
	if len(days) != 7 || days[0] != "2026-11-01 | $147.50 | $180.50 | $33.00 (18 %) | 54 | – | 11.5" || days[1] != "2026-10-31 | $302.50 | $357.50 | $55.00 (15 %) | 45 | 16 % | 24.0" {
		t.Errorf("the days are\n%s", strings.Join(days, "\n"))
	}
	if got := p.text("#savings-answer"); got != "$2,075 in 7 days, $198.00 (9 %) less than without consolidation" {
		t.Errorf("in all: %q", got)
	}
	choose := func(key, first string) {
		t.Helper()
		p.press(key) // the rows are chosen with the keyboard alone
		p.wait("document.querySelector('#savings-rows tr').innerText.replaceAll('\t', ' | ').startsWith('" + first + "')")
	}
	eval[bool](p, "(document.querySelector('#savings-by').focus(), true)")
	choose(kb.ArrowDown, "2026-11-01 | batch | $29.50 | $36.10 | $6.60 (18 %) | 10")
	eval[bool](p, "(document.querySelector('#savings-rows button').click(), true)")
	p.wait("document.querySelector('#drawer-title').innerText === 'nodepool/batch'")
	eval[bool](p, "(document.querySelector('#drawer-close').click(), document.querySelector('#savings-by').focus(), true)")
	choose(kb.ArrowDown, "2026-11-01 | shop | ")
	if got := rows()[2]; !strings.HasPrefix(got, "2026-11-01 | (idle) | ") {
		t.Errorf("the third namespace is %q, want what no pod requests", got)
	}
	p.noProblems()
	p = t.open(look{})
	p.open(serve(t.T, newService(fleetOf(3))))
	p.wait("document.querySelector('#savings-notes').innerText.includes('Nothing is recorded of what the cluster cost. what the nodes cost before is not known here; ask a live cluster')")
}

func testPending(t visit) {
	s := newService(fleetOf(6))
	s.fleet = lively
	s.explain = func(about inspect.Subject) inspect.Document {
		return inspect.Document{Title: about.String(), Answer: "explained: " + about.String()}
	}
	p := t.open(look{})
	p.open(serve(t.T, s))
	text := p.text("#pending")
	for _, want := range []string{"default/huge-0000", "500 CPU is more than any instance type", "and 1 more", "Lower the request", "Planned: nodeclaim/default-x7k2p"} {
		if !strings.Contains(text, want) {
			t.Errorf("pending pods are %q, want %q in it", text, want)
		}
	}
	eval[bool](p, "(document.querySelector('#pending button').click(), true)")
	p.wait("document.querySelector('#drawer .answer')?.innerText === 'explained: pod/default/huge-0000'")
	s.set(func(s *service) { s.fleet = func(f *inspect.Fleet) { f.Pending = nil } })
	p.refresh()
	if !eval[bool](p, "!document.querySelector('#pending-empty').hidden") {
		t.Error("without pending pods, the page does not say so")
	}
	p.noProblems()
}

func testWhatIf(t visit) {
	s := newService(fleetOf(6))
	requested := make(chan inspect.WhatIf, 1)
	s.plan = func(w inspect.WhatIf) (inspect.Changes, error) {
		if w.IsZero() { // what the page asks by itself
			return inspect.Changes{}, nil
		}
		requested <- w
		if len(w.Set) == 0 {
			return inspect.Changes{}, errors.New(`nodepool "defautl" was not found; did you mean default?`)
		}
		return inspect.Changes{
			Before: inspect.Totals{Nodes: 6, Hourly: 2}, After: inspect.Totals{Nodes: 4, Hourly: 1.5}, Bound: 1.2, Evictions: 3,
			Remove: []inspect.Removal{{Node: "ip-10-0-0-4.ec2.internal", Reason: "Underutilized"}}, Unplaced: []inspect.Pending{{Pod: "default/huge-0000"}},
		}, nil
	}
	p := t.open(look{})
	p.open(serve(t.T, s))
	submit := func() { eval[bool](p, "(document.querySelector('#whatif').requestSubmit(), true)") }
	p.do(chromedp.SetValue(chromedp.CSS("#prices"), "m5.xlarge/*/spot"))
	submit()
	p.wait("document.querySelector('#whatif-result .problem')?.innerText.includes('\"m5.xlarge/*/spot\" is not TYPE/ZONE/CAPACITY-TYPE=USD')")
	p.do(chromedp.SetValue(chromedp.CSS("#prices"), "m5.xlarge/*/spot=0.09"))
	submit()
	<-requested
	p.wait("document.querySelector('#whatif-result .problem')?.innerText.includes('did you mean default?')")
	p.do(
		chromedp.SetValue(chromedp.CSS("#set"), "nodepool/default.disruption.consolidateAfter=1m"),
		chromedp.SetValue(chromedp.CSS("#without"), "instance-type=m5.large"),
		chromedp.SetValue(chromedp.CSS("#add-pods"), "kind: Pod"),
	)
	eval[bool](p, "(document.querySelector('#without-choices input[value=\"capacity-type=spot\"]').click(), true)")
	submit()
	want := inspect.WhatIf{
		Set: []string{"nodepool/default.disruption.consolidateAfter=1m"}, Without: []string{"capacity-type=spot", "instance-type=m5.large"},
		Prices: map[string]float64{"m5.xlarge/*/spot": 0.09}, AddPods: "kind: Pod",
	}
	if diff := cmp.Diff(want, <-requested); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
	p.wait("document.querySelector('#whatif-result dl')")
	text := p.text("#whatif-result")
	for _, want := range []string{"Now\n$2.00/h", "Afterwards\n$1.50/h", "$365/month", "25 % above the lower bound of $1.20/h", "Evictions\n3", "Without a node\n1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the result is %q, want %q in it", text, want)
		}
	}
	p.noProblems()
}

func testChart(t visit) {
	s := newService(fleetOf(6))
	s.past = past()
	p := t.open(look{})
	p.open(serve(t.T, s))
	if n := eval[int](p, "document.querySelectorAll('#chart .cost-line, #chart .bound-line, #chart .unconsolidated-line').length"); n != 3 {
		t.Errorf("the chart has %d lines, want cost, bound, and what it would have cost without consolidation", n)
	}
	if n := eval[int](p, "document.querySelectorAll('#chart .eviction').length"); n != 3 {
		t.Errorf("the chart marks %d evictions, want 3", n)
	}
	latest := s.past.Costs[len(s.past.Costs)-1]
	if got, want := p.text("#chart-readout"), fmt.Sprintf("$%.2f/h", latest.Hourly); !strings.Contains(got, "Now") || !strings.Contains(got, want) {
		t.Errorf("the chart reads %q, want %s now", got, want)
	}
	eval[bool](p, "(document.querySelector('#chart').focus(), true)")
	for range 8 { // to the point of 8 steps before the latest, which has evictions
		p.press(kb.ArrowLeft)
	}
	p.wait("document.querySelector('#chart-readout').innerText.includes('5 evictions')")
	choose := func(hours string) string {
		eval[bool](p, "((select) => { select.value = '"+hours+"'; select.dispatchEvent(new Event('input', {bubbles: true})); return true; })(document.querySelector('#costs-span'))")
		return p.text("#costs-range") + " " + eval[string](p, "[...document.querySelectorAll('#chart .tick')].map((t) => t.textContent).join()")
	}
	// LG-28: hours on the axis of a day, days on that of a month.
	if got := choose("6"); !strings.HasPrefix(got, "Sun 1 Nov 06:00 to Sun 1 Nov 12:00 ") || !strings.Contains(got, ",07:00,") {
		t.Errorf("of six hours the chart shows %s", got)
	}
	s.set(func(s *service) { // of two weeks, nothing is known
		var before []inspect.Cost
		for _, c := range s.past.Costs {
			c.At, c.Saved = c.At.AddDate(0, 0, -16), 0
			before = append(before, c)
		}
		s.past.Costs = append(before, s.past.Costs...)
	})
	p.refresh()
	lines := func(class string) int {
		return eval[int](p, "document.querySelectorAll('#chart ."+class+"').length")
	}
	if got := choose("0"); !strings.HasPrefix(got, "Thu 15 Oct 12:00 to Sun 1 Nov 12:00 ") || !strings.Contains(got, "Oct,") || lines("cost-line") != 2 || lines("bound-line") != 2 {
		t.Errorf("of everything the chart shows %s, and %d and %d lines, want days, and a line before and after the time that nothing is known of", got, lines("cost-line"), lines("bound-line"))
	}
	if got := choose("168"); !strings.HasPrefix(got, "Sat 31 Oct 12:00 to Sun 1 Nov 12:00 ") {
		t.Errorf("of a week the chart shows %s, want the part that is known", got)
	}
	s.set(func(s *service) { s.past = inspect.History{} })
	p.refresh()
	p.wait("document.querySelector('#costs-range').innerText.includes('since this page was opened')")
	if eval[int](p, "document.querySelectorAll('#chart .unconsolidated-line').length") != 0 || !eval[bool](p, "document.querySelector('#key-unconsolidated').hidden") {
		t.Error("nothing is known of costs without consolidation, and the chart shows them")
	}
	p.noProblems()
}

func testFreshness(t visit) {
	s := newService(fleetOf(6))
	p := t.open(look{})
	p.open(serve(t.T, s))
	state := func() string { return eval[string](p, "document.querySelector('#freshness').dataset.state") }
	if text := p.text("#freshness"); state() != "fresh" || !strings.HasPrefix(text, "Updated ") {
		t.Errorf("the page says %q, want when it was updated", text)
	}
	s.set(func(s *service) { s.fail = errors.New("the caches have not synced") })
	p.refresh()
	if text := p.text("#failure"); !strings.Contains(text, "the caches have not synced") || !strings.Contains(text, "look at the log of the controller") {
		t.Errorf("after a failure the page says %q, want the reason and the next step", text)
	}
	if state() != "old" || eval[bool](p, "document.querySelector('#main').hidden") {
		t.Error("after a failure the page does not mark its data as old, or hides it")
	}
	s.set(func(s *service) {
		s.fail = nil
		s.fleet = func(f *inspect.Fleet) { f.At = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	})
	p.refresh()
	if text := p.text("#freshness"); state() != "old" || !strings.Contains(text, "Data of 2 Jan 2026") {
		t.Errorf("of old data the page says %q, want of when it is", text)
	}
	if !eval[bool](p, "document.querySelector('#failure').hidden") {
		t.Error("the failure is still shown")
	}
	eval[bool](p, "(document.querySelector('#pause').click(), true)")
	p.wait("document.querySelector('#freshness').innerText.includes('paused') && document.querySelector('#pause').getAttribute('aria-pressed') === 'true'")
}

// lowContrast lists texts whose contrast with what is behind them is below 4.5, the least of WCAG AA.
const lowContrast = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const rgba = (colour) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return [255, 255, 255, 255];
	};
	const found = [];
	for (const e of document.querySelectorAll('body *')) {
		const text = [...e.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim()).length;
		if (!text || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.closest('.hidden, .skip, noscript, option')) continue;
		const style = getComputedStyle(e);
		const [a, b] = [light(rgba(style.fill && e instanceof SVGElement ? style.fill : style.color)), light(behind(e))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) found.push(ratio.toFixed(2) + ' ' + (e.id || e.className?.baseVal || e.className || e.tagName) + ': ' + e.textContent.slice(0, 40));
	}
	return found;
})()`

func testThemes(t visit) {
	background := "getComputedStyle(document.body).backgroundColor"
	const light, dark = "rgb(244, 246, 248)", "rgb(13, 18, 23)"
	for scheme, want := range map[string]string{"light": light, "dark": dark} {
		s := newService(fleetOf(8))
		s.past, s.fleet, s.savings = past(), lively, spent()
		p := t.open(look{scheme: scheme, width: 1800, height: 1400})
		p.open(serve(t.T, s))
		if got := eval[string](p, background); got != want {
			t.Errorf("the system wants %s, and the background is %s, want %s", scheme, got, want)
		}
		if !eval[bool](p, "document.querySelector('#map').dataset.roomy === 'true'") {
			t.Error("with 8 nodes on a large screen, tiles have no text")
		}
		if low := eval[[]string](p, lowContrast); len(low) > 0 {
			t.Errorf("%s: contrast below 4.5:\n%s", scheme, strings.Join(low, "\n"))
		}
		eval[bool](p, "(document.querySelector('#timeline button').click(), true)")
		if low := eval[[]string](p, lowContrast); len(low) > 0 {
			t.Errorf("%s, with the drawer: contrast below 4.5:\n%s", scheme, strings.Join(low, "\n"))
		}
		for _, want := range []string{light, dark} {
			eval[bool](p, "(document.querySelector('#theme').click(), true)")
			if got := eval[string](p, background); got != want {
				t.Errorf("the system wants %s, the button says %s, and the background is %s, want %s", scheme, p.text("#theme"), got, want)
			}
		}
		p.do(chromedp.Reload())
		p.wait("!document.querySelector('#main').hidden")
		if got := eval[string](p, background); got != dark {
			t.Errorf("the choice is forgotten on reload: the background is %s", got)
		}
		p.noProblems()
	}
}

func testManyNodes(t visit) {
	s := newService(fleetOf(2000))
	p := t.open(look{})
	p.open(serve(t.T, s))
	if got := eval[int](p, "document.querySelectorAll('#map button.tile').length"); got != 2000 {
		t.Fatalf("there are %d tiles, want 2,000", got)
	}
	eval[bool](p, `(() => {
		window.changed = new Set();
		new MutationObserver((list) => list.forEach((m) => window.changed.add(m.target))).observe(document.querySelector('#map'), {subtree: true, childList: true, attributes: true, characterData: true});
		return true;
	})()`)
	s.set(func(s *service) { s.fleet = func(f *inspect.Fleet) { f.Nodes[700].State = inspect.Removing } })
	p.refresh()
	p.wait("document.querySelectorAll('#map .tile[data-state=Removing]').length === 1")
	if n := eval[int](p, "window.changed.size"); n > 3 {
		t.Errorf("one node changed, and the refresh touched %d elements of the map", n)
	}
	eval[bool](p, "(document.querySelector('#map .tile[tabindex=\"0\"]').focus(), true)")
	p.press(kb.ArrowDown, kb.ArrowDown, kb.End)
	if !eval[bool](p, "document.activeElement === [...document.querySelectorAll('#map .tile')].at(-1)") {
		t.Error("the keyboard does not reach the last node")
	}
	p.noProblems()
}

func testPhone(t visit) {
	s := newService(fleetOf(60))
	s.past, s.fleet, s.savings = past(), lively, spent()
	p := t.open(look{width: 390, height: 844})
	p.open(serve(t.T, s))
	const beyond = `[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.closest('.hidden, .scroll, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.id || e.className || e.tagName)`
	check := func(what string) {
		t.Helper()
		if out := eval[[]string](p, beyond); len(out) > 0 {
			t.Errorf("%s: beyond the right edge are %s", what, strings.Join(out, ", "))
		}
		if width := eval[int](p, "document.scrollingElement.scrollWidth"); width > 390 {
			t.Errorf("%s: the page is %d px wide, want at most 390", what, width)
		}
	}
	check("the page")
	p.wait("document.querySelector('#savings-rows tr')")
	if wider := eval[[]string](p, "[...document.querySelectorAll('.savings .scroll, .savings tr, .savings td')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)"); len(wider) > 0 {
		t.Errorf("savings are cut off: %q", wider)
	}
	eval[bool](p, "([...document.querySelectorAll('#timeline button')].find((b) => b.innerText.includes('2 nodes are removed')).click(), true)")
	check("the drawer")
	eval[bool](p, "(document.querySelector('#drawer-close').click(), document.querySelector('#forget').click(), true)")
	check("the form for the token")
	p.noProblems()
}
