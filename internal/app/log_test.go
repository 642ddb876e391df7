package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/dovetail-sh/dovetail/internal/app"
)

// written logs at a level and returns the lines.
func written(t *testing.T, level string, act func(logr.Logger)) []map[string]any {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := app.Logger(level, []string{path}, []string{path}, "abc")
	if err != nil {
		t.Fatal(err)
	}
	act(log)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("line %s: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

// operations 10: four levels, although logr has two; and what each setting shows of them.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	all := func(log logr.Logger) {
		log.V(2).Info("noise")
		log.V(1).Info("detail")
		log.Info("news")
		log.Error(nil, "worth a look", "error-like", "x")
		log.Error(errors.New("boom"), "failed")
		log.WithValues("k", "v").WithName("deep").Error(nil, "worth another look")
	}
	for level, want := range map[string][]string{
		"debug": {"DEBUG detail", "INFO news", "WARN worth a look", "ERROR failed", "WARN worth another look"},
		"info":  {"INFO news", "WARN worth a look", "ERROR failed", "WARN worth another look"},
		"":      {"INFO news", "WARN worth a look", "ERROR failed", "WARN worth another look"},
		"error": {"ERROR failed"},
	} {
		t.Run("level "+level, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, line := range written(t, level, all) {
				got = append(got, fmt.Sprint(line["level"], " ", line["message"]))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := app.Logger("loud", nil, nil, ""); err == nil {
		t.Error("an unknown level was accepted")
	}
}

// operations 10: keys and the form of values.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	lines := written(t, "info", func(log logr.Logger) {
		log.Info("launched nodeclaim", "NodeClaim", klog.KRef("", "apps-x7k2p"), "Pod", klog.KRef("shop", "web"), "duration", 112600*time.Microsecond)
		log.Error(fmt.Errorf("tick: %w", errors.Join(errors.New("one"), errors.New("two"))), "Reconciler error")
	})
	at, _ := lines[0]["time"].(string)
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
		t.Errorf("time is %q", at)
	}
	for i, want := range []map[string]any{
		{
			"level": "INFO", "logger": "controller", "commit": "abc", "message": "launched nodeclaim", "duration": "112.6ms",
			"NodeClaim": map[string]any{"name": "apps-x7k2p"}, "Pod": map[string]any{"name": "web", "namespace": "shop"},
		},
		{
			"level": "ERROR", "logger": "controller", "commit": "abc", "message": "Reconciler error", "error": "tick: one\ntwo",
			"errorCauses": []any{map[string]any{"error": "one"}, map[string]any{"error": "two"}},
		},
	} {
		got := maps.Clone(lines[i])
		delete(got, "time")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
	}
	if debug := written(t, "debug", func(log logr.Logger) { log.Info("x") }); !strings.HasPrefix(fmt.Sprint(debug[0]["caller"]), "app/log_test.go:") {
		t.Errorf("caller at level debug is %v", debug[0]["caller"])
	}
}

// What is cut off because the process ends is no error.
func TestLogOfTheEnd(t *testing.T) {
	t.Parallel()
	lines := written(t, "info", func(log logr.Logger) {
		log.Error(fmt.Errorf("list: %w", context.Canceled), "Reconciler error")
		log.Error(errors.Join(context.Canceled, fmt.Errorf("too: %w", context.Canceled)), "Reconciler error")
		log.Error(errors.Join(context.Canceled, errors.New("denied")), "Reconciler error")
	})
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), "denied") {
		t.Errorf("lines: %v", lines)
	}
}

// Trust B08: two replicas that start together both create the lease, and one of them is too late. That is no error; a lease
// that cannot be created is.
func TestTrust_B08_LosingAnElectionIsNoError(t *testing.T) {
	t.Parallel()
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	lines := written(t, "info", func(log logr.Logger) {
		election := log.WithName("leaderelection")
		election.Error(apierrors.NewAlreadyExists(leases, "karpenter-leader-election"), "Error initially creating lease lock")
		election.Error(apierrors.NewConflict(leases, "karpenter-leader-election", errors.New("changed")), "Failed to update lease")
		election.Error(apierrors.NewForbidden(leases, "karpenter-leader-election", errors.New("no rule")), "Error initially creating lease lock")
		log.Error(apierrors.NewAlreadyExists(leases, "other"), "create")
	})
	if len(lines) != 2 || !strings.Contains(fmt.Sprint(lines[0]["error"]), "no rule") || lines[1]["message"] != "create" {
		t.Errorf("lines: %v", lines)
	}
}

// operations 10: no line for each event.
func TestLogLeavesOut(t *testing.T) {
	t.Parallel()
	lines := written(t, "debug", func(log logr.Logger) {
		log.WithName("events").V(1).Info("Event occurred")
		log.WithName("events").Error(errors.New("boom"), "could not send")
	})
	if len(lines) != 1 || lines[0]["message"] != "could not send" {
		t.Errorf("lines: %v", lines)
	}
}

// FM N05: of equal messages the first hundred of a second are written, then every hundredth; the next second
// starts anew, and other messages are not kept back.
func TestFM_N05_StormsAreThinnedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := written(t, "info", func(log logr.Logger) {
			for range 2 {
				for range 1000 {
					log.WithValues("k", "v").Info("again")
				}
				log.Info("once")
				time.Sleep(time.Second)
			}
		})
		byMessage := map[any]int{}
		for _, line := range lines {
			byMessage[line["message"]]++
		}
		if byMessage["again"] != 2*(100+9) || byMessage["once"] != 2 {
			t.Errorf("lines by message: %v, want 109 in each second", byMessage)
		}
	})
}
