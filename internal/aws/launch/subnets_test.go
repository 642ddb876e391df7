package launch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAddresses(time.Now)
		subnets := []discover.Subnet{{ID: "big", Zone: "a", Free: 100}, {ID: "small", Zone: "a", Free: 80}, {ID: "other", Zone: "b", Free: 1}}
		full := ""
		// take reports what was chosen and, unless the launch is to stay, gives it back.
		take := func(stay bool) map[string]string {
			got := map[string]string{}
			for zone, s := range a.reserveAddresses(subnets, 29, func(id string) bool { return id == full }) {
				got[zone] = s.id
				if !stay {
					a.returnAddresses([]string{s.id}, 29)
				}
			}
			return got
		}
		expect := func(why string, want, got map[string]string) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n%s", why, diff)
			}
		}
		expect("most addresses", map[string]string{"a": "big", "b": "other"}, take(true))
		expect("a launch in flight, and the last address of b taken", map[string]string{"a": "small"}, take(false))
		a.returnAddresses([]string{"other"}, 29)
		expect("b was not used", map[string]string{"a": "small", "b": "other"}, take(false))
		full = "small"
		expect("one is full", map[string]string{"a": "big", "b": "other"}, take(false))
		full = ""
		subnets[0].Free = 99
		expect("EC2 was called again", map[string]string{"a": "big", "b": "other"}, take(true))
		expect("so the next goes elsewhere", map[string]string{"a": "small"}, take(false))
		time.Sleep(6 * time.Minute)
		expect("old estimates are forgotten", map[string]string{"a": "big", "b": "other"}, take(false))
	})
}

// F07: many launches at once spread over the subnets of a zone, and stop when the addresses end.
func TestFM_F07_ManyLaunchesIntoSmallSubnets(t *testing.T) {
	t.Parallel()
	inBubble(t, []catalog.InstanceType{kind("m5.large", spot("a", 1), spot("b", 1))}, func(l *fixture) {
		t := l.t
		l.free["subnet-a"], l.free["subnet-b"] = 20, 10
		got := l.many(100)
		if len(got.ids) != 20 || got.failed != 80 {
			t.Errorf("%d launched, %d refused", len(got.ids), got.failed)
		}
	})
}
