package awsemu

import (
	"sync"
	"time"
)

// Clock is the time of the emulated cloud. It runs with the wall clock, faster, or stands still.
type Clock struct {
	mu     sync.Mutex
	wall   func() time.Time
	start  time.Time // wall time of the last change
	base   time.Time // emulated time at start
	speed  float64   // emulated seconds per second; 0 stands still
	change chan struct{}
}

// NewClock returns a clock that shows the wall time now and runs at a speed.
func NewClock(wall func() time.Time, speed float64) *Clock {
	now := wall()
	return &Clock{wall: wall, start: now, base: now, speed: speed, change: make(chan struct{})}
}

// maxWait bounds a timer.
const maxWait = time.Hour

// Now is the emulated time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.currentTime()
}

func (c *Clock) currentTime() time.Time {
	return c.base.Add(time.Duration(float64(c.wall().Sub(c.start)) * c.speed))
}

// Set changes the time and the speed. Negative speeds stand still.
func (c *Clock) Set(now time.Time, speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start, c.base, c.speed = c.wall(), now, max(speed, 0)
	close(c.change)
	c.change = make(chan struct{})
}

// Advance moves the time forward and keeps the speed.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d), c.Speed()) }

// Speed is how many emulated seconds pass in one.
func (c *Clock) Speed() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.speed
}

// Until returns a channel that is closed when the emulated time comes, or when the clock was changed
// and should be called again. A caller that stops waiting calls stop.
func (c *Clock) Until(t time.Time) (reached <-chan struct{}, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := make(chan struct{})
	var once sync.Once
	finish := func() { once.Do(func() { close(done) }) }
	changed, quit := c.change, make(chan struct{})
	var timer *time.Timer
	if left := t.Sub(c.currentTime()); left <= 0 {
		finish()
	} else if c.speed > 0 {
		// Woken early, the caller calls again; so far away that the sum would overflow, the caller does not wait.
		wait := min(float64(left)/c.speed, float64(maxWait))
		timer = time.AfterFunc(time.Duration(wait)+time.Millisecond, finish)
	}
	go func() {
		select {
		case <-changed:
			finish()
		case <-quit:
		case <-done:
		}
	}()
	var stopOnce sync.Once
	return done, func() {
		stopOnce.Do(func() {
			close(quit)
			if timer != nil {
				timer.Stop()
			}
		})
	}
}
