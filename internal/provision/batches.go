package provision

import "time"

// LongestBatch is how long a launch waits for a batch of claims to be written at most.
const LongestBatch = 10 * time.Second

// Batches are the batches of claims that are being written. A launch waits for the one that was begun last: it would hold up
// the claims that are still to be written, and claims that are alike are launched with one request if they come together.
type Batches struct {
	begun   int // the last one
	writing map[int]bool
}

// Begin records that a batch is being written, and returns its number.
func (b *Batches) Begin() int {
	if b.writing == nil {
		b.writing = map[int]bool{}
	}
	b.begun++
	b.writing[b.begun] = true
	return b.begun
}

// End records that a batch is written.
func (b *Batches) End(batch int) { delete(b.writing, batch) }

// Last is the batch that a launch which is requested now waits for.
func (b *Batches) Last() int { return b.begun }

// LaunchWait is for how much longer a launch waits that was requested when batch was the last one, and has waited since;
// zero: it may go ahead.
func (b *Batches) LaunchWait(batch int, waited time.Duration) time.Duration {
	if !b.writing[batch] {
		return 0
	}
	return max(0, LongestBatch-waited)
}
