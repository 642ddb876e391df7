package trouble_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What all tests share.
var (
	server     *harness.Server
	kube       client.WithWatch
	controller *world.Controller
	metrics    string // address of the metrics of the controller
	binary     string // the controller
	kubectl    string
)

func TestMain(m *testing.M) {
	harness.Tune(16, 0)
	harness.Main(m, harness.Options{World: true, Speed: 1, Boot: 500 * time.Millisecond, Prepare: preparePrograms}, &server)
}

// preparePrograms builds the programs and runs the controller with debug logs, as the last row of the table says.
func preparePrograms(ctx context.Context, s *harness.Server) (func(int) (int, error), error) {
	var err error
	if kube, err = harness.NewTyped(s.Config); err != nil {
		return nil, err
	}
	if _, err := server.Control(ctx, http.MethodPut, "timing", harness.QuickInstances); err != nil {
		return nil, err
	}
	if binary, err = harness.Dovetail.Build(ctx); err != nil {
		return nil, err
	}
	if kubectl, err = harness.Kubectl.Build(ctx); err != nil {
		return nil, err
	}
	port, err := harness.LastingPort(ctx)
	if err != nil {
		return nil, err
	}
	metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	controller, err = s.World.RunController(ctx, world.ControllerOptions{
		Binary: binary, Proxied: true, Restart: true, Flags: []string{"--log-level=debug", fmt.Sprintf("--metrics-port=%d", port)},
	})
	if err != nil {
		return nil, err
	}
	return func(code int) (int, error) {
		err := controller.Stop()
		for _, complaint := range unreadableLines(controller.Log) {
			fmt.Fprintln(os.Stderr, complaint)
			code = max(code, 1)
		}
		return code, err
	}, nil
}

// unreadableLines finds lines of a log that people cannot use: no JSON, a key twice, a response of AWS as XML.
func unreadableLines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var complaints []string
	for line := range strings.Lines(string(text)) {
		switch key := duplicateKey(line); {
		case !json.Valid([]byte(line)):
			complaints = append(complaints, "not JSON: "+line)
		case key != "":
			complaints = append(complaints, "key "+key+" twice: "+line)
		case strings.Contains(line, "<Response>") || strings.Contains(line, "<?xml"):
			complaints = append(complaints, "raw XML: "+line)
		}
	}
	return complaints
}

// duplicateKey returns a key that an object has more than once.
func duplicateKey(line string) string {
	d := json.NewDecoder(strings.NewReader(line))
	seen, depth, isKey := map[string]bool{}, 0, true
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			isKey = true
		default:
			if text, ok := v.(string); ok && depth == 1 && isKey {
				if seen[text] {
					return text
				}
				seen[text], isKey = true, false
			} else if depth == 1 {
				isKey = true
			}
		}
	}
}
