package top

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

const large = 5000

func largeScreen(tb testing.TB) *screen {
	tb.Helper()
	return newScreen(tb, serviceOf(mixed(large)), 0, 200, 50)
}

// TV-16: what a frame costs depends on the terminal, not on the fleet: texts are made for visible rows only.
func TestTV_16_OnlyVisibleRowsAreDrawn(t *testing.T) {
	t.Parallel()
	c := largeScreen(t)
	made := 0
	columns := c.model.nodes.columns
	for i := range columns {
		text := columns[i].text
		columns[i].text = func(r *nodeRow) string { made++; return text(r) }
	}
	for _, keys := range []string{"down", "pgdown", "end", "home"} {
		made = 0
		c.press(keys)
		c.check(keys)
		if most := 50 * len(columns); made > most {
			t.Errorf("after %s, %d texts are made for a frame of %d nodes, want at most %d", keys, made, large, most)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	c := largeScreen(b)
	b.ReportAllocs()
	for b.Loop() {
		_ = c.model.View()
	}
}

func BenchmarkKey(b *testing.B) {
	c := largeScreen(b)
	b.ReportAllocs()
	for b.Loop() {
		c.model.Update(tea.KeyPressMsg(tea.Key{Code: tea.KeyDown}))
	}
}

// BenchmarkUpdate is a response with a fleet.
func BenchmarkUpdate(b *testing.B) {
	for name, keys := range map[string]string{"by name": "", "by price": "S S", "filtered": "/ m 5 enter"} {
		b.Run(name, func(b *testing.B) {
			c := largeScreen(b)
			c.press(keys)
			fleet := *c.model.fleet
			at := c.now
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(time.Second)
				c.model.Update(fleetMsg{response: response{at: at}, fleet: fleet})
			}
		})
	}
}

func BenchmarkFilter(b *testing.B) {
	c := largeScreen(b)
	b.ReportAllocs()
	for b.Loop() {
		c.press("/ m 5 . x esc")
	}
}
