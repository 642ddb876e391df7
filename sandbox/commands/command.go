package commands

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// mostRequests is how many requests to the API server one question may take.
const mostRequests = 20

// User has a kubeconfig whose requests are recorded.
type User struct {
	*Server

	Binary string   // dovetail
	Env    []string // beside the kubeconfig
}

// Output is what came of a command.
type Output struct {
	Command  string // as it was typed
	Out, Err string
	Code     int
	Requests []Request
}

// Run runs dovetail, and fails the test if it writes to the API server or takes more requests than a question may.
func (u *User) Run(t *testing.T, args ...string) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := u.Command(t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if exit, exited := errors.AsType[*exec.ExitError](cmd.Run()); exited && !exit.Exited() {
		t.Fatalf("dovetail %s: %v", strings.Join(args, " "), exit)
	}
	o := Output{Command: typed(args), Out: stdout.String(), Err: stderr.String(), Code: cmd.ProcessState.ExitCode(), Requests: u.Take()}
	Check(t, o.Command, o.Requests, mostRequests)
	return o
}

// Command is a command of the user that has not begun.
func (u *User) Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	u.Take()
	cmd := exec.CommandContext(t.Context(), u.Binary, args...)
	cmd.Env = append(slices.Clip(u.Env), "KUBECONFIG="+u.Kubeconfig, "HOME="+t.TempDir(), "NO_COLOR=1")
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// typed is a command as a user types it.
func typed(args []string) string {
	words := []string{"dovetail"}
	for _, a := range args {
		if strings.ContainsAny(a, " []{}") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// String is what a terminal shows of it.
func (o Output) String() string {
	text := "$ " + o.Command + "\n" + o.Out + o.Err
	if o.Code != 0 {
		text += fmt.Sprintf("(exit code %d)\n", o.Code)
	}
	return text
}
