package solve

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// cells are lots by size. Many sizes are looked at through few cells. Everything that changes as lots
// are used up is in flat memory, so that a copy for another attempt is cheap.
type cells struct {
	list  []cell
	sizes []size
	lots  []int32
	at    []int32 // cell of each lot
}

// cell is a handful of sizes that are nearly one: sizes from to to, largest first.
type cell struct {
	low         []int64 // the least any of them asks for
	cpu, memory float64 // mean
	more        bool    // asks for more than cpu, memory and a place
	from, to    int32
}

// size is the lots of exactly one size: lots from to to.
type size struct {
	req      []int64
	from, to int32
}

// finest is how many sizes are each looked at; more are put into cells.
const finest = 192

// cellKey is what sizes of one cell have in common.
type cellKey struct {
	cpu, memory int64
	rest        string
}

// newCells sorts lots by size.
func newCells(m *model, lots []lot) cells {
	req := func(i int32) []int64 { return m.classes[lots[i].class].req }
	c := cells{lots: make([]int32, len(lots)), at: make([]int32, len(lots))}
	for i := range c.lots {
		c.lots[i] = int32(i)
	}
	slices.SortFunc(c.lots, func(a, b int32) int { return cmp.Or(-slices.Compare(req(a), req(b)), cmp.Compare(a, b)) })
	sizes := make([]size, 0, len(lots))
	for n, i := range c.lots {
		if last := len(sizes) - 1; last >= 0 && slices.Equal(sizes[last].req, req(i)) {
			sizes[last].to++
			continue
		}
		sizes = append(sizes, size{req(i), int32(n), int32(n) + 1})
	}
	known, of := map[cellKey]int32{}, make([]int32, len(sizes))
	for n := range sizes {
		key := cellKey{cpu: int64(n)}
		if len(sizes) > finest {
			key = coarse(sizes[n].req)
		}
		id, seen := known[key]
		if !seen {
			id = int32(len(c.list))
			known[key] = id
			c.list = append(c.list, cell{low: slices.Clone(sizes[n].req)})
		}
		of[n] = id
		c.list[id].to++ // counted first
	}
	c.sizes = make([]size, len(sizes))
	next := int32(0)
	for i := range c.list {
		x := &c.list[i]
		x.from, x.to, next = next, next, next+x.to
	}
	for n, z := range sizes {
		c.put(of[n], z)
	}
	for i := range c.list {
		c.list[i].finish(c.sizes)
	}
	return c
}

// put adds a size to a cell.
func (c *cells) put(id int32, z size) {
	x := &c.list[id]
	c.sizes[x.to] = z
	x.to++
	for l, v := range z.req {
		x.low[l] = min(x.low[l], v)
	}
	for _, lot := range c.lots[z.from:z.to] {
		c.at[lot] = id
	}
}

func (x *cell) finish(sizes []size) {
	for l, v := range x.low {
		x.more = x.more || v > 0 && l != resources.CPU && l != resources.Memory && l != resources.Pods
	}
	for _, z := range sizes[x.from:x.to] {
		x.cpu += float64(z.req[resources.CPU]) / float64(x.to-x.from)
		x.memory += float64(z.req[resources.Memory]) / float64(x.to-x.from)
	}
}

// coarse puts sizes within a fifth of each other together, if they ask for the same of anything but
// cpu and memory.
func coarse(req []int64) cellKey {
	step := func(v int64) int64 {
		if v <= 0 {
			return -1
		}
		return int64(math.Log(float64(v)) / math.Log(1.2))
	}
	key := cellKey{cpu: step(req[resources.CPU]), memory: step(req[resources.Memory])}
	plain := true
	for l, v := range req {
		plain = plain && (v == 0 || l == resources.CPU || l == resources.Memory || l == resources.Pods && v == 1)
	}
	if !plain {
		var rest []byte
		for l, v := range req {
			if l != resources.CPU && l != resources.Memory {
				rest = binary.AppendVarint(rest, v)
			}
		}
		key.rest = string(rest)
	}
	return key
}

// clone copies what an attempt changes.
func (c *cells) clone() cells {
	return cells{list: slices.Clone(c.list), sizes: slices.Clone(c.sizes), lots: slices.Clone(c.lots), at: c.at}
}

// dropEmptyLot forgets a lot of which nothing is left.
func (c *cells) dropEmptyLot(lot int) {
	x := &c.list[c.at[lot]]
	for i := x.from; i < x.to; i++ {
		z := &c.sizes[i]
		at := slices.Index(c.lots[z.from:z.to], int32(lot))
		if at < 0 {
			continue
		}
		copy(c.lots[int(z.from)+at:], c.lots[int(z.from)+at+1:z.to])
		if z.to--; z.to == z.from {
			copy(c.sizes[i:], c.sizes[i+1:x.to])
			x.to--
		}
		return
	}
}
