package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// patience is how long one command may take.
const patience = 5 * time.Minute

// copyTerraform is a copy of the folder terraform, where tofu may write.
func copyTerraform(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(setting.sources)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// root is a folder that commands are run in, with values for its variables.
type root struct {
	dir  string
	vars map[string]string
}

// tofuCommand is tofu with arguments, as users type it.
func (r root) tofuCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, setting.tofu, append(args, "-no-color")...)
	cmd.Dir, cmd.Env = r.dir, append([]string{}, setting.env...)
	for name, value := range r.vars {
		cmd.Env = append(cmd.Env, "TF_VAR_"+name+"="+value)
	}
	return cmd
}

// runTofu runs a command that ends with a code, and returns what it prints.
func (r root) runTofu(t *testing.T, code int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	began := time.Now()
	out, err := r.tofuCommand(ctx, args...).CombinedOutput()
	t.Logf("$ tofu %s (%v)", strings.Join(args, " "), time.Since(began).Round(100*time.Millisecond))
	if got := exitCode(err); got != code {
		t.Fatalf("$ tofu %s\nends with code %d (%v), want %d:\n%s", strings.Join(args, " "), got, err, code, out)
	}
	return string(out)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// interruptApply runs an apply and presses Ctrl-C after a call to AWS.
func (r root) interruptApply(t *testing.T, action string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := r.tofuCommand(ctx, "apply", "-auto-approve", "-input=false")
	fired, disarm := setting.world.AWS.Once(awsemu.Trigger{Action: action, Moment: awsemu.AfterResponse, Run: func(awsemu.Call) {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Errorf("interrupt: %v", err)
		}
	}})
	defer disarm()
	out, err := cmd.CombinedOutput()
	select {
	case <-fired:
	default:
		t.Fatalf("apply ended with %v before %s:\n%s", err, action, out)
	}
	if exitCode(err) != 1 {
		t.Fatalf("the apply that was interrupted after %s ends with %v:\n%s", action, err, out)
	}
	t.Logf("interrupted after %s; it ended in order", action)
}

// applyDenied runs an apply while the account refuses a call.
func (r root) applyDenied(t *testing.T, action string) {
	t.Helper()
	faults := func(method, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, setting.world.AWSEndpoint+"/_dovetail/faults", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode/100 != 2 {
			t.Fatalf("%s faults: %s", method, response.Status)
		}
	}
	faults(http.MethodPost, `{"action": "`+action+`", "code": "AccessDeniedException", "status": 403}`)
	t.Cleanup(func() { faults(http.MethodDelete, "") })
	if out := r.runTofu(t, 1, "apply", "-auto-approve", "-input=false"); !strings.Contains(out, "AccessDeniedException") {
		t.Errorf("what the user reads does not say why:\n%s", out)
	}
	faults(http.MethodDelete, "")
}

// readOutputs are the values that the root prints.
func (r root) readOutputs(t *testing.T) map[string]any {
	t.Helper()
	out, err := r.tofuCommand(t.Context(), "output", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]struct{ Value any }
	if err := json.Unmarshal(out, &raw); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	for name, o := range raw {
		values[name] = o.Value
	}
	return values
}

// exampleRoot is the folder of an example in a new copy.
func exampleRoot(t *testing.T, name string, vars map[string]string) root {
	t.Helper()
	return root{dir: filepath.Join(copyTerraform(t), "examples", name), vars: vars}
}
