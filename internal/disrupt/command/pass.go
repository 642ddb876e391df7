package command

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Times between passes of disruption.
const (
	PassInterval = 10 * time.Second
	AfterWake    = time.Second            // shortest time between a pass and one that was woken
	AfterWrite   = 100 * time.Millisecond // for the watch to deliver what was written
)

// NextPass returns in what time the next pass is due if all went well, and whether it is a pass for other nodes: no
// command could be started, and those that failed are backed off.
func NextPass(decided []disrupt.Command, started int) (in time.Duration, others bool) {
	switch {
	case len(decided) == 0:
		return PassInterval, false
	case started == 0:
		return AfterWake, true
	case slices.ContainsFunc(decided, func(c disrupt.Command) bool { return c.Decision == disrupt.Reboot }):
		return AfterWrite, false
	}
	return 0, false // there may be more to do
}
