package clients

import "testing"

// EX-13: kubectl finds the binary as its plugin, and completes names of objects with it.
func TestEX_13_KubectlPlugin(t *testing.T) {
	t.Parallel()
	const path = `PATH="$PWD/plugins:$PATH" `
	performSteps(t, []step{
		{
			name: "install",
			run: `mkdir plugins && ln -s "$DOVETAIL" plugins/kubectl-dovetail &&
				"$DOVETAIL" completion kubectl > plugins/kubectl_complete-dovetail && chmod +x plugins/kubectl_complete-dovetail`,
		},
		{name: "explain", run: path + "kubectl dovetail explain node " + first, want: []string{"node/" + first, "t3.medium, on-demand"}},
		{name: "an error", run: path + "kubectl dovetail explain node bootstrap-3.eu-west-1.compute.internal", fails: true, want: []string{"kubectl dovetail: node/bootstrap-3", "did you mean node/bootstrap-"}},
		{name: "complete", run: path + "kubectl __complete dovetail explain node '' 2>/dev/null", want: []string{first, second, ":4"}},
	})
}
