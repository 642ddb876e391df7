package awscli

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed forks.py
var forks string

//go:embed aws.sh
var client string

// CLI is what Install found.
type CLI struct {
	Missing string // why there is no aws; empty if there is one
	Old     string // what this version does not know of what the scripts use; empty if it knows all
	Stop    func() // ends what Install started
}

// Install writes an aws into a folder, which belongs into PATH. It calls AWS_ENDPOINT_URL: version 1 does not look at the variables
// of all services, and versions before 2.13 look at none.
func Install(ctx context.Context, bin string) (CLI, error) {
	found, _ := exec.LookPath("aws")
	if found == "" {
		return CLI{Missing: "no aws in PATH; Debian's package awscli has one", Stop: func() {}}, nil
	}
	version, err := exec.CommandContext(ctx, found, "--version").Output()
	if err != nil {
		return CLI{Stop: func() {}}, fmt.Errorf("%s --version: %w", found, err)
	}
	text := "#!/bin/bash\nexec '" + found + "' --endpoint-url \"$AWS_ENDPOINT_URL\" \"$@\"\n"
	port, stop := start(ctx, pythonOfScript(found), bin)
	if port != "" {
		text = strings.ReplaceAll(client, "@PORT@", port)
	}
	return CLI{Old: whyTooOld(string(version)), Stop: stop}, os.WriteFile(filepath.Join(bin, "aws"), []byte(text), 0o700)
}

// whyTooOld says what a version lacks.
func whyTooOld(version string) string {
	numbers := regexp.MustCompile(`aws-cli/(\d+)\.(\d+)`).FindStringSubmatch(version)
	if numbers == nil {
		return ""
	}
	major, _ := strconv.Atoi(numbers[1])
	minor, _ := strconv.Atoi(numbers[2])
	if minor < map[int]int{1: 32, 2: 15}[major] {
		return strings.Fields(version)[0] + " does not know access entries and pod identity"
	}
	return ""
}

// pythonOfScript is the Python that runs a script, by its first line.
func pythonOfScript(script string) string {
	if text, err := os.ReadFile(script); err == nil {
		if line, _, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(line, "#!/") && strings.Contains(line, "python") {
			return strings.TrimSpace(line[2:])
		}
	}
	return "python3"
}

// start starts the process that makes the calls, and returns its port; none if it cannot be started.
func start(ctx context.Context, python, dir string) (port string, stop func()) {
	script := filepath.Join(dir, "forks.py")
	if err := os.WriteFile(script, []byte(forks), 0o600); err != nil {
		return "", func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, python, script)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return "", cancel
	}
	port, _ = bufio.NewReader(out).ReadString('\n') // nothing, if it ends
	return strings.TrimSpace(port), func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
}
