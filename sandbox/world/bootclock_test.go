package world

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// Machines boot on a clock that runs ahead; a machine of an earlier run has booted long ago.
func TestTrust_D01_MachinesBootFasterOnTheClockOfTheAccount(t *testing.T) {
	t.Parallel()
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := began
	account := awsemu.NewClock(func() time.Time { return now }, 1)
	boot := &bootClock{Clock: account, began: began, speed: 20}
	now = now.Add(time.Minute)
	running := account.Now()
	for name, tc := range map[string]struct{ at, want time.Time }{
		"now":               {boot.Now(), began.Add(20 * time.Minute)},
		"it runs":           {boot.machineTime(running), began.Add(20 * time.Minute)},
		"of an earlier run": {boot.machineTime(began.Add(-time.Hour)), began.Add(-time.Hour)},
		"it never ran":      {boot.machineTime(time.Time{}), time.Time{}},
	} {
		if !tc.at.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, tc.at, tc.want)
		}
	}
	reached, stop := boot.Until(boot.machineTime(running).Add(-time.Second))
	defer stop()
	<-reached
	now = now.Add(time.Second) // 20 of a machine
	if booted := boot.machineTime(running).Add(20 * time.Second); boot.Now().Before(booted) {
		t.Errorf("not booted at %s, want %s", boot.Now(), booted)
	}
}
