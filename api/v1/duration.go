package v1

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/duration"
)

// Parse reads a duration that may not be Never.
func (d Duration) Parse() (time.Duration, error) { return duration.Parse(string(d)) }

// ParseOrNever reads a duration that may be Never.
func (d Duration) ParseOrNever() (length time.Duration, never bool, err error) {
	return duration.ParseOrNever(string(d))
}
