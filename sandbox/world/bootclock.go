package world

import (
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// bootClock is the time of machines that boot: that of the emulated account until the world began, and faster since. Its
// times stay inside: what others see of a machine has the time of the account.
type bootClock struct {
	*awsemu.Clock

	began time.Time
	speed float64
}

// Now is the time of machines.
func (c *bootClock) Now() time.Time { return c.machineTime(c.Clock.Now()) }

// Until waits for a time of machines.
func (c *bootClock) Until(t time.Time) (reached <-chan struct{}, stop func()) {
	if since := t.Sub(c.began); since > 0 {
		t = c.began.Add(time.Duration(float64(since) / c.speed))
	}
	return c.Clock.Until(t)
}

// machineTime is the time of machines at a time of the account; the zero time stays.
func (c *bootClock) machineTime(t time.Time) time.Time {
	if since := t.Sub(c.began); !t.IsZero() && since > 0 {
		return c.began.Add(time.Duration(float64(since) * c.speed))
	}
	return t
}
