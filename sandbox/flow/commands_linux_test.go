package flow_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/commands"
)

// The full screen shows a live cluster, reads from the leader or the objects, and leaves the terminal as it was. TV-01, TV-15, EX-37.
func TestQuestions_FullScreen(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive) // a cluster with few nodes, so that all are on the screen
	token := f.createToken("operator")
	f.bind("operator", "cluster-admin")
	for name, args := range map[string][]string{
		"TV-15: of the leader":                 {"top", "--controller-address", f.served},
		"TV-15: of the objects of the cluster": {"top"},
	} {
		t.Run(name, func(t *testing.T) {
			user := f.user(token)
			terminal := user.Open(t, args...)
			terminal.Await("bootstrap-1.eu-west-1.compute.internal")
			if !terminal.Raw() {
				t.Error("the terminal is not in raw mode while the view is shown: this test shows nothing")
			}
			terminal.Press("\x03")
			terminal.Clean()
			commands.Check(t, "top", user.Take(), 2*20) // of the fleet and of the first plan
		})
	}
}
