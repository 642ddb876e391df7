package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestScreenshots(t *testing.T) {
	t.Parallel()
	if *screenshots == "" {
		t.Skip("name a directory with -screenshots to get pictures of the page")
	}
	open := newBrowser(t)
	for name, tc := range map[string]struct {
		look  look
		nodes int
		full  bool
	}{
		"light": {look: look{}, nodes: 60},
		"dark":  {look: look{scheme: "dark"}, nodes: 60},
		"whole": {look: look{}, nodes: 12, full: true},
		"phone": {look: look{width: 390, height: 844}, nodes: 60, full: true},
		"2000":  {look: look{scheme: "dark"}, nodes: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(fleetOf(tc.nodes))
			s.past = past()
			s.fleet = lively
			p := open(t, tc.look)
			p.open(serve(t, s))
			picture := chromedp.CaptureScreenshot()
			if tc.full {
				picture = chromedp.FullScreenshot(100)
			}
			png, err := chromedp.Run(p.ctx, picture)
			if err != nil {
				p.fail(err)
			}
			_, problems := p.seen()
			t.Log(problems)
			if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}
