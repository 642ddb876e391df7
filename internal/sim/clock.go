package sim

import (
	"container/heap"
	"time"
)

// clock is virtual time: things to do, each at its time, in the order in which they were requested.
type clock struct {
	now   time.Time
	seq   uint64
	queue happenings
}

type happening struct {
	at  time.Time
	seq uint64
	do  func()
}

// at does something at a time, or at once if that is past.
func (c *clock) at(t time.Time, do func()) {
	if t.Before(c.now) {
		t = c.now
	}
	c.seq++
	heap.Push(&c.queue, happening{t, c.seq, do})
}

func (c *clock) after(d time.Duration, do func()) { c.at(c.now.Add(d), do) }

// runUntil lets time pass.
func (c *clock) runUntil(end time.Time, stop func() bool) {
	for len(c.queue) > 0 && !c.queue[0].at.After(end) && !stop() {
		next := heap.Pop(&c.queue).(happening)
		c.now = next.at
		next.do()
	}
	if !stop() {
		c.now = end
	}
}

// happenings is a heap.
type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = happening{}
	*h = old[:len(old)-1]
	return last
}
