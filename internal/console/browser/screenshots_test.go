package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
		show  string // expression that opens what is to be seen
	}{
		"light": {look: look{}, nodes: 60},
		"dark":  {look: look{scheme: "dark"}, nodes: 60},
		"whole": {look: look{}, nodes: 12, full: true},
		"phone": {look: look{width: 390, height: 844}, nodes: 60, full: true},
		"2000":  {look: look{scheme: "dark"}, nodes: 2000},
		"wall":  {look: look{scheme: "dark", width: 1920, height: 1080}, nodes: 400},

		"explain":  {nodes: 60, show: "document.querySelectorAll('#map .tile')[12].click()"},
		"decision": {nodes: 60, look: look{scheme: "dark"}, show: "[...document.querySelectorAll('#timeline button')].find((b) => b.innerText.includes('2 nodes are removed')).click()"},
		"what-if":  {nodes: 30, full: true, show: "document.querySelector('#whatif').requestSubmit()"},
		"token":    {nodes: 3, show: "document.querySelector('#forget').click()"},
		"savings":  {nodes: 60, look: look{height: 900, width: 1280}, show: "document.querySelector('.costs').scrollIntoView()"},
		"card":     {nodes: 60, show: "document.querySelectorAll('#map .tile')[15].focus()"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(fleetOf(tc.nodes))
			s.plan = nil
			s.past, s.savings = past(), spent()
			s.fleet = lively
			p := open(t, tc.look)
			p.open(serve(t, s))
			p.wait("document.querySelector('#totals').innerText.includes('/h of $')")
			if tc.show != "" {
				eval[bool](p, "("+tc.show+", true)")
				p.wait("!document.body.innerText.includes('Loading …') && !document.body.innerText.includes('Planning …')")
			}
			picture := chromedp.CaptureScreenshot()
			if tc.full {
				picture = chromedp.FullScreenshot(100)
			}
			data, err := chromedp.Run(p.ctx(), picture)
			if err != nil {
				p.fail(err)
			}
			p.noProblems()
			if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), compressed(t, data), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// compressed is a picture with 256 colours, which is enough for the page and a third of the size.
func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	few := image.NewPaletted(full.Bounds(), paletteOf(full))
	draw.Draw(few, full.Bounds(), full, full.Bounds().Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// paletteOf is the most frequent colours, and of the others those that are least like them.
func paletteOf(full image.Image) color.Palette {
	count := map[color.RGBA]int{}
	for y := full.Bounds().Min.Y; y < full.Bounds().Max.Y; y++ {
		for x := full.Bounds().Min.X; x < full.Bounds().Max.X; x++ {
			count[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), bytes.Compare([]byte{a.R, a.G, a.B}, []byte{b.R, b.G, b.B}))
	})
	var palette color.Palette
	for _, c := range all[:min(100, len(all))] {
		palette = append(palette, c)
	}
	distance := func(a, b color.RGBA) int {
		r, g, u := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
		return r*r + g*g + u*u
	}
	nearest := make([]int, len(all))
	for i, c := range all {
		nearest[i] = distance(c, palette[palette.Index(c)].(color.RGBA))
	}
	for len(palette) < min(256, len(all)) {
		next := slices.Index(nearest, slices.Max(nearest))
		palette = append(palette, all[next])
		for i, c := range all {
			nearest[i] = min(nearest[i], distance(c, all[next]))
		}
	}
	return palette
}
