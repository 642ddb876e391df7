package browser

import (
	"context"
	"flag"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write the pictures of the documentation into this directory")

// patience is how long a condition may take. It only bounds a test that fails.
const patience = time.Minute

// chromium is the browser. Without one the test is skipped; .ci/run makes sure that there is one.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no chromium in PATH: install Debian's package chromium to run the tests of the page")
	return ""
}

// look is how the page is looked at.
type look struct {
	width, height int64
	scheme        string // prefers-color-scheme; empty: light
}

// newBrowser starts a browser, and returns what opens tabs in it.
func newBrowser(t *testing.T) func(*testing.T, look) *page {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(patience), chromedp.Env("TZ=UTC", "LANG=en_US.UTF-8"))
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	browser, quit := chromedp.NewContext(allocator)
	t.Cleanup(quit)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, l look) *page {
		t.Helper()
		return newPage(t, browser, l)
	}
}

// page is a tab that shares no storage with others, with what it requested and reported.
type page struct {
	t   *testing.T
	ctx func() context.Context // of the tab

	mu       sync.Mutex
	requests []string
	problems []string // exceptions of scripts, and what the browser refused or reported
}

func newPage(t *testing.T, browser context.Context, l look) *page {
	t.Helper()
	if l.width == 0 {
		l.width, l.height = 1280, 800
	}
	if l.scheme == "" {
		l.scheme = "light"
	}
	ctx, quit := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(quit)
	p := &page{t: t, ctx: func() context.Context { return ctx }}
	if err := chromedp.Listen(ctx, p.record); err != nil {
		t.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, runtime.Enable, cdp.Empty{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	p.do(chromedp.EmulateViewport(l.width, l.height))
	return p
}

func (p *page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.problems = append(p.problems, text)
	case *log.EventEntryAdded:
		p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
	}
}

// seen is what was requested and reported so far.
func (p *page) seen() (requests, problems []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests), slices.Clone(p.problems)
}

func call[P, R any](p *page, command cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx(), command, params); err != nil {
		p.fail(err)
	}
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx(), steps...); err != nil {
		p.fail(err)
	}
}

// wait waits until an expression of JavaScript is true.
func (p *page) wait(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx(), chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(patience))); err != nil {
		p.t.Logf("what was waited for: %s", expression)
		p.fail(err)
	}
}

// eval is the value of an expression of JavaScript.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx(), chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Logf("what was evaluated: %s", expression)
		p.fail(err)
	}
	return v
}

// text is the text of the first element that a selector finds.
func (p *page) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector('"+selector+"')?.innerText ?? ''")
}

func (p *page) fail(err error) {
	p.t.Helper()
	_, problems := p.seen()
	p.t.Fatalf("%v\nthe browser reported: %s", err, strings.Join(problems, "\n"))
}

// open opens the address with the token, and waits for the data.
func (p *page) open(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate(address + "#token=" + goodToken))
	p.wait("document.querySelector('#totals dd') && !document.querySelector('#main').hidden")
}

// refresh has the page request everything, and waits until it has shown it.
func (p *page) refresh() {
	p.t.Helper()
	eval[bool](p, "(window.before = document.querySelector('#freshness').dataset.shown ?? '', document.querySelector('#refresh').click(), true)")
	p.wait("document.querySelector('#freshness').dataset.shown !== window.before")
}

// press presses keys, one after the other.
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}
