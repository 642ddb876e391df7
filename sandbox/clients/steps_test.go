package clients

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long one command may take. Those that wait have a shorter limit of their own.
const patience = 5 * time.Minute

// Every aws command is given the address: version 1 does not look at AWS_ENDPOINT_URL_SQS, and
// versions before 2.13 look at none of the variables.
const preamble = `set -euo pipefail
aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" --output json "$@"; }
`

// step is one command as a user types it, and what must come of it.
type step struct {
	name  string   // begins with the rule it shows, if there is one
	run   string   // a line of bash
	want  []string // the output has all of it
	avoid []string // and nothing of this
	fails bool     // the command says no
	save  string   // the variable that holds the output in the steps that follow
}

// performSteps runs steps in order and stops at the first that does not do what it must.
func performSteps(t *testing.T, steps []step) {
	t.Helper()
	env := shell.env
	for _, s := range steps {
		passed := t.Run(s.name, func(t *testing.T) {
			out := s.performStep(t, env)
			if s.save != "" {
				env = append(slices.Clip(env), s.save+"="+out)
			}
		})
		if !passed {
			return // the steps that follow need this one
		}
	}
}

func (s step) performStep(t *testing.T, env []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", preamble+s.run)
	cmd.Dir, cmd.Env, cmd.WaitDelay = shell.home, env, time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	out := strings.TrimSpace(string(stdout))
	shown := out + "\n" + strings.TrimSpace(stderr.String())
	if ctx.Err() != nil {
		t.Fatalf("$ %s\nhas not ended after %v:\n%s", s.run, patience, shown)
	}
	if failed := err != nil; failed != s.fails {
		t.Fatalf("$ %s\nends with %v, want a failure: %t:\n%s", s.run, err, s.fails, shown)
	}
	for _, text := range s.want {
		if !strings.Contains(shown, text) {
			t.Errorf("$ %s\ndoes not say %q:\n%s", s.run, text, shown)
		}
	}
	for _, text := range s.avoid {
		if strings.Contains(shown, text) {
			t.Errorf("$ %s\nsays %q:\n%s", s.run, text, shown)
		}
	}
	if s.save != "" && out == "" {
		t.Errorf("$ %s\nprints nothing, and $%s is needed:\n%s", s.run, s.save, shown)
	}
	return out
}

// inNewNamespace adds a namespace of its own to the front of steps, and makes it the current one.
func inNewNamespace(name string, steps []step) []step {
	return append([]step{{
		name: "namespace",
		run: "kubectl config view --raw > " + name + ".kubeconfig && export KUBECONFIG=$PWD/" + name + ".kubeconfig && " +
			"kubectl create namespace " + name + " >&2 && kubectl config set-context --current --namespace=" + name + " >&2 && echo $KUBECONFIG",
		save: "KUBECONFIG",
	}}, steps...)
}
