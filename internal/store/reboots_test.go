package store

import (
	"testing"
	"time"
)

// V15-30: reboots count for 24 hours, each for its own claim.
func TestRebootsCountForADay(t *testing.T) {
	t.Parallel()
	at := now()
	o := testOptions()
	o.Now = func() time.Time { return at }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	uid := s.claims["general-x"].UID
	count := func() int { return s.Disruption(testTypes()).Nodes[0].Reboots }
	if n := count(); n != 0 {
		t.Errorf("%d reboots before the first", n)
	}
	s.Rebooted(uid)
	s.Rebooted("another")
	at = at.Add(23 * time.Hour)
	s.Rebooted(uid)
	if n := count(); n != 2 {
		t.Errorf("%d reboots in the last day, want 2", n)
	}
	at = at.Add(time.Hour)
	if n := count(); n != 1 {
		t.Errorf("%d reboots after the first is a day old, want 1", n)
	}
	s.Rebooted(uid)
	if n := count(); n != 2 {
		t.Errorf("%d reboots, want 2", n)
	}
	if _, kept := s.reboots["another"]; kept {
		t.Error("a claim that is long gone is remembered")
	}
	at = at.Add(48 * time.Hour)
	if n := count(); n != 0 {
		t.Errorf("%d reboots days later", n)
	}
}
