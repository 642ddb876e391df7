package pack

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// buckets are batches by size. Many sizes are examined through few buckets. Everything that changes while batches are
// used up is in flat slices, so that a copy for another attempt is cheap.
type buckets struct {
	list     []bucket
	sizes    []size
	batches  []int32
	bucketOf []int32 // bucket of each batch
}

// bucket is a few sizes that are nearly equal: the sizes in [from, to), largest first.
type bucket struct {
	low         []int64 // minimum of the requests of its sizes
	cpu, memory float64 // mean
	more        bool    // requests more than cpu, memory and a pod slot
	from, to    int32
}

// size is the batches of exactly one size: those in [from, to).
type size struct {
	req      []int64
	from, to int32
}

// maxExactSizes is up to how many sizes each is examined; more are put into buckets.
const maxExactSizes = 192

// bucketKey is what the sizes of one bucket have in common.
type bucketKey struct {
	cpu, memory int64
	rest        string
}

// newBuckets sorts batches by size.
func newBuckets(m *model.Model, batches []Batch) buckets {
	req := func(i int32) []int64 { return m.Classes[batches[i].Class].Requests }
	c := buckets{batches: make([]int32, len(batches)), bucketOf: make([]int32, len(batches))}
	for i := range c.batches {
		c.batches[i] = int32(i)
	}
	slices.SortFunc(c.batches, func(a, b int32) int { return cmp.Or(-slices.Compare(req(a), req(b)), cmp.Compare(a, b)) })
	sizes := make([]size, 0, len(batches))
	for n, i := range c.batches {
		if last := len(sizes) - 1; last >= 0 && slices.Equal(sizes[last].req, req(i)) {
			sizes[last].to++
			continue
		}
		sizes = append(sizes, size{req(i), int32(n), int32(n) + 1})
	}
	known, of := map[bucketKey]int32{}, make([]int32, len(sizes))
	for n := range sizes {
		key := bucketKey{cpu: int64(n)}
		if len(sizes) > maxExactSizes {
			key = coarseKey(sizes[n].req)
		}
		id, seen := known[key]
		if !seen {
			id = int32(len(c.list))
			known[key] = id
			c.list = append(c.list, bucket{low: slices.Clone(sizes[n].req)})
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
		c.addSize(of[n], z)
	}
	for i := range c.list {
		c.list[i].setMeans(c.sizes)
	}
	return c
}

// addSize adds a size to a bucket.
func (c *buckets) addSize(id int32, z size) {
	x := &c.list[id]
	c.sizes[x.to] = z
	x.to++
	for l, v := range z.req {
		x.low[l] = min(x.low[l], v)
	}
	for _, batch := range c.batches[z.from:z.to] {
		c.bucketOf[batch] = id
	}
}

func (x *bucket) setMeans(sizes []size) {
	for l, v := range x.low {
		x.more = x.more || v > 0 && l != resources.CPU && l != resources.Memory && l != resources.Pods
	}
	for _, z := range sizes[x.from:x.to] {
		x.cpu += float64(z.req[resources.CPU]) / float64(x.to-x.from)
		x.memory += float64(z.req[resources.Memory]) / float64(x.to-x.from)
	}
}

// coarseKey groups sizes within a fifth of each other, if their requests for anything but cpu and memory are equal.
func coarseKey(req []int64) bucketKey {
	step := func(v int64) int64 {
		if v <= 0 {
			return -1
		}
		return int64(math.Log(float64(v)) / math.Log(1.2))
	}
	key := bucketKey{cpu: step(req[resources.CPU]), memory: step(req[resources.Memory])}
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

// clone copies the parts that an attempt changes.
func (c *buckets) clone() buckets {
	return buckets{list: slices.Clone(c.list), sizes: slices.Clone(c.sizes), batches: slices.Clone(c.batches), bucketOf: c.bucketOf}
}

// dropEmptyBatch removes a batch that has no pods left.
func (c *buckets) dropEmptyBatch(batch int) {
	x := &c.list[c.bucketOf[batch]]
	for i := x.from; i < x.to; i++ {
		z := &c.sizes[i]
		at := slices.Index(c.batches[z.from:z.to], int32(batch))
		if at < 0 {
			continue
		}
		copy(c.batches[int(z.from)+at:], c.batches[int(z.from)+at+1:z.to])
		if z.to--; z.to == z.from {
			copy(c.sizes[i:], c.sizes[i+1:x.to])
			x.to--
		}
		return
	}
}
