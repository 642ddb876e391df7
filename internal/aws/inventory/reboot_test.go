package inventory_test

import (
	"testing"
	"testing/synctest"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// V15-67: a missing permission and an unknown instance are final, everything else may pass.
func TestReboot(t *testing.T) {
	t.Parallel()
	fail := func(name string) func(*world) {
		return func(w *world) { w.ec2.fail["reboot"] = code(name) }
	}
	for name, tc := range map[string]struct {
		state ec2types.InstanceStateName
		setup func(*world)
		calls int
		kind  cloud.Kind
		fails bool
	}{
		"a running instance is rebooted":      {state: running, calls: 1},
		"an ended one is not found":           {state: terminated, fails: true, kind: cloud.NotFound},
		"so is one that is shutting down":     {state: shuttingDown, fails: true, kind: cloud.NotFound},
		"E19 no call in a zone shifted away":  {state: running, setup: func(w *world) { w.shifted["euw1-az1"] = true }, fails: true},
		"a missing permission is a denial":    {state: running, setup: fail("UnauthorizedOperation"), calls: 1, fails: true, kind: cloud.Denied},
		"unknown to the call is not found":    {state: running, setup: fail("InvalidInstanceID.NotFound"), calls: 1, fails: true, kind: cloud.NotFound},
		"what can never be done is invalid":   {state: running, setup: fail("UnsupportedOperation"), calls: 1, fails: true, kind: cloud.Invalid},
		"a throttle may pass":                 {state: running, setup: fail("RequestLimitExceeded"), calls: 1, fails: true, kind: cloud.Throttled},
		"a state that does not fit may pass":  {state: running, setup: fail("IncorrectState"), calls: 1, fails: true},
		"a response that is not one may pass": {state: running, setup: fail("InternalError"), calls: 1, fails: true},
		"the instance cannot be looked up":    {state: running, setup: func(w *world) { w.ec2.fail["describe"] = code("RequestLimitExceeded") }, fails: true, kind: cloud.Throttled},
		"no capacity is not what it is about": {state: running, setup: fail("InsufficientInstanceCapacity"), calls: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(map[string]ec2types.InstanceStateName{"i-1": tc.state})
				_, _ = w.Find(t.Context(), "i-1") // so that its zone is known
				if tc.setup != nil {
					tc.setup(w)
				}
				err := w.Reboot(t.Context(), "i-1")
				if (err != nil) != tc.fails || cloud.KindOf(err) != tc.kind {
					t.Errorf("error %v of kind %v, want kind %v", err, cloud.KindOf(err), tc.kind)
				}
				if n := w.ec2.count("reboot"); n != tc.calls {
					t.Errorf("%d calls, want %d", n, tc.calls)
				}
			})
		})
	}
}
