package app

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	logPatience = 200 * time.Millisecond // a line that takes longer is not waited for, nor are those after it
	logBacklog  = 4096                   // lines that wait while the output is stuck; more are left out
)

// pipe writes log lines to an output that may get stuck: a full disk, or a reader that does not read. Normally a line
// is written when Write returns. Once one takes too long, callers do not wait any more, so that loops continue
// without a log rather than not at all (FM N17). Lines that did not fit the backlog are counted, and the count is
// reported when the output works again.
type pipe struct {
	out    io.Writer
	notice func(lost int) []byte // the line that reports how many were dropped

	mu      sync.Mutex
	pending []pipeLine
	writing bool // a goroutine writes what is pending
	stuck   bool // a line took too long, and there is still a backlog
	lost    int
}

type pipeLine struct {
	text    []byte
	written chan struct{}
}

// Write hands over a line, and waits for it unless the output is stuck.
func (p *pipe) Write(text []byte) (int, error) {
	written, wait := p.enqueueLine(text)
	if !wait {
		return len(text), nil
	}
	limit := time.NewTimer(logPatience)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C:
		p.mu.Lock()
		p.stuck = p.writing
		p.mu.Unlock()
	}
	return len(text), nil
}

// Sync does nothing: lines are not kept back.
func (p *pipe) Sync() error { return nil }

// enqueueLine puts a line at the end of those that are pending, and says whether to wait for it.
func (p *pipe) enqueueLine(text []byte) (written <-chan struct{}, wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) >= logBacklog {
		p.lost++
		return nil, false
	}
	line := pipeLine{text: bytes.Clone(text), written: make(chan struct{})} // the caller uses its buffer again
	p.pending = append(p.pending, line)
	if !p.writing {
		p.writing = true
		go p.writePending()
	}
	return line.written, !p.stuck
}

// writePending writes what is pending until nothing is.
func (p *pipe) writePending() {
	for {
		line, more := p.next()
		if !more {
			return
		}
		_, _ = p.out.Write(line.text) // an error cannot be reported anywhere
		close(line.written)
	}
}

func (p *pipe) next() (pipeLine, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.pending) > 0:
		line := p.pending[0]
		p.pending = p.pending[1:]
		return line, true
	case p.lost > 0:
		text := p.notice(p.lost)
		p.lost = 0
		return pipeLine{text: text, written: make(chan struct{})}, true
	}
	p.pending, p.writing, p.stuck = nil, false, false
	return pipeLine{}, false
}
