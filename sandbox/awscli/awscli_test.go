package awscli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runAWS runs an aws and returns what its caller sees.
func runAWS(t *testing.T, aws, home string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), aws, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "AWS_PROFILE=other", "AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_PAGER=")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// What a fork does is what the program does.
func TestForksAreTheProgram(t *testing.T) {
	bin, home := t.TempDir(), t.TempDir()
	cli, err := Install(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Stop()
	if cli.Missing != "" {
		t.Skip(cli.Missing)
	}
	program, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".aws", "config"), []byte("[profile other]\nregion = eu-west-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"folders and variables of the caller": {"configure", "get", "region"},
		"no such command":                     {"iam", "nothing"},
		"no credentials":                      {"sts", "get-caller-identity", "--region", "eu-west-1"},
	} {
		t.Run(name, func(t *testing.T) {
			want, wantCode := runAWS(t, program, home, args...)
			if got, code := runAWS(t, filepath.Join(bin, "aws"), home, args...); got != want || code != wantCode {
				t.Errorf("aws %s prints %q and ends with %d, the program %q and %d", strings.Join(args, " "), got, code, want, wantCode)
			}
		})
	}
}

func TestOldVersions(t *testing.T) {
	t.Parallel()
	for version, isOld := range map[string]bool{
		"aws-cli/1.31.9 Python/3.11": true, "aws-cli/1.32.0 Python/3.11": false, "aws-cli/2.9.19 Python/3.11": true, "aws-cli/2.15.0 Python/3.11": false, "something else": false,
	} {
		if got := whyTooOld(version); (got != "") != isOld {
			t.Errorf("%s: %q", version, got)
		}
	}
}
