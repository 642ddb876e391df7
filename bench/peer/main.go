// Command peer runs Karpenter's scheduler, or its consolidation, over a scenario file and prints one line of JSON
// with the fields that `dovetail plan` prints. It is a module of its own, so that Karpenter and its libraries are no
// dependency of ours; it calls nothing but exported functions of the published module. docs/reference/scenario.md
// describes the file.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

var version = func() string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == "sigs.k8s.io/karpenter" {
			return d.Version
		}
	}
	return "unknown"
}()

func main() {
	var (
		path        = flag.String("scenario", "", "scenario file")
		mode        = flag.String("mode", "provision", "provision, or consolidate")
		concurrency = flag.Int("concurrency", 1, "provision: candidates tried in parallel (upstream: its CPU request, rounded up; 1 unless set)")
		timeout     = flag.Duration("timeout", 0, "provision: give up after this long (upstream: 1m); consolidate: stop starting new rounds after this long; 0: never")
		plan        = flag.String("plan", "", "provision: also write what goes where to this file")
		profile     = flag.String("cpuprofile", "", "write a CPU profile here")
	)
	flag.Parse()
	log.SetLogger(logging.NopLogger)
	if *profile != "" {
		f, err := os.Create(*profile)
		fatal(err)
		fatal(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	ctx, err := withOptions(log.IntoContext(context.Background(), logging.NopLogger))
	fatal(err)
	s, err := loadScenario(*path)
	fatal(err)
	result, err := run(ctx, s, *mode, *concurrency, *timeout, *plan)
	fatal(err)
	fatal(json.NewEncoder(os.Stdout).Encode(result))
}

func run(ctx context.Context, s *Scenario, mode string, concurrency int, timeout time.Duration, plan string) (any, error) {
	switch mode {
	case "provision":
		return provision(ctx, s, concurrency, timeout, plan)
	case "consolidate":
		return consolidate(ctx, s, timeout)
	}
	return nil, fmt.Errorf("unknown mode %q", mode)
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
