package commands

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// administrator is the key of the user in the shell: see world.World.Environment. Controllers have others.
const administrator = "AKIASANDBOX"

// OnlyReads fails a test, at its end, if the user of a shell has called AWS for anything but reading.
func OnlyReads(t *testing.T, account *awsemu.Emulator) {
	t.Helper()
	var mu sync.Mutex
	calls := map[string]int{}
	stop := account.Watch(func(c awsemu.Call) {
		if c.Key == administrator {
			mu.Lock()
			calls[c.Action]++
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if len(calls) == 0 {
			t.Error("AWS was not called: the test shows nothing")
		}
		for action := range calls {
			if !slices.ContainsFunc([]string{"Describe", "Get", "List"}, func(verb string) bool { return strings.HasPrefix(action, verb) }) {
				t.Errorf("AWS was called with %s", action)
			}
		}
	})
}
