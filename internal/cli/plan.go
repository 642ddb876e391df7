package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/version"
)

const (
	modeProvision   = "provision"
	modeConsolidate = "consolidate"

	formatAuto  = "auto"
	formatJSON  = "json"
	formatTable = "table"
)

type planFlags struct {
	scenario  string
	out       string
	mode      string
	format    string
	explain   bool
	greedy    bool
	firstLook bool
	workers   int
	nodeFee   float64
	spotShare float64
	spotCost  float64
	timeout   time.Duration
}

func newPlan(s Streams) *cobra.Command {
	f, of := &planFlags{}, &clusterFlags{}
	cmd := &cobra.Command{
		Use:   "plan --live | --scenario FILE",
		Short: "Plan for a live cluster, a snapshot or a scenario, and say what it costs",
		Long: "With --live, reads the cluster of the kubeconfig and says what Dovetail would do to it: nodes to remove and to launch,\n" +
			"pods to move, what that saves, and the least that any nodes for these pods can cost. Nothing is written, neither to the\n" +
			"cluster nor to AWS. The cluster may be managed by Dovetail, Karpenter or Cluster Autoscaler. With --scenario and a file of\n" +
			"dovetail snapshot, says the same of the cluster as it was then. --set, --add-pods, --without and --price-file plan for a changed cluster.\n\n" +
			"With --scenario and a scenario of docs/reference/scenario.md, reads a scenario (instance types, nodes, pending pods), plans as the controller would, and\n" +
			"reports nodes, cost, time and memory. It contacts neither a cluster nor a cloud.\n\n" +
			"In mode provision, pending pods are placed. In mode consolidate, nodes that are not worth their price are removed:\n" +
			"moves are made at once and the cluster is checked again, until nothing is left to gain.\n\n" +
			"On a terminal the report is a table, otherwise one line of JSON. Times are in milliseconds: storeMs is reading\n" +
			"the nodes and the pods on them, which a store fed by watches does as they change, so that no other figure contains\n" +
			"it; setupMs is all other work from being handed the Kubernetes objects to the first decision, solveMs the decision.\n" +
			"lowerBound is a cost that no plan can beat; it is absent if none is known.",
		Example: "  # what would Dovetail do to the cluster of the current context?\n  dovetail plan --live\n\n" +
			"  # what if NodePool default could use arm64 too, and spot had no capacity?\n" +
			"  dovetail plan --live --without capacity-type=spot \\\n" +
			"    --set 'nodepool/default.requirements=[{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}]'\n\n" +
			"  # the same about the cluster of a bug report\n  dovetail plan --scenario cluster.json.gz --add-pods deployment.yaml -o wide\n\n" +
			"  # what to launch for the pods of a scenario, and why\n  dovetail plan --scenario s2-500.json --explain\n\n" +
			"  # figures for a script, and the plan itself\n  dovetail plan --scenario s2-500.json --format json --out plan.json\n\n" +
			"  # against the simple way: pod by pod\n  dovetail plan --scenario s2-500.json --greedy\n\n" +
			"  # which nodes can be removed, first pass only\n  dovetail plan --scenario c1-200.json --mode consolidate --first-look",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if of.fromLive {
				return planLive(cmd, of, s)
			}
			return runPlan(cmd, f, of, s)
		},
	}
	flags := cmd.Flags()
	of.bind(cmd)
	flags.StringVar(&f.scenario, "scenario", "", "scenario or snapshot file, or - for standard input")
	flags.StringVar(&f.out, "out", "", "provision: also write which pods go where to this file")
	flags.StringVar(&f.mode, "mode", modeProvision, "provision or consolidate")
	flags.StringVar(&f.format, "format", formatAuto, "json, table, or auto: a table on a terminal, else json")
	flags.BoolVar(&f.explain, "explain", false, "say why: what each kind of node is for, what is against a pod, and what to do about it; the largest kinds, the rest counted")
	flags.BoolVar(&f.greedy, "greedy", false, "only the baseline: pod by pod, as it comes")
	flags.BoolVar(&f.firstLook, "first-look", false, "consolidate: stop after the first look at the untouched cluster")
	flags.IntVar(&f.workers, "workers", 0, "goroutines that decide; 0 is one per CPU. Never changes the plan")
	flags.Float64Var(&f.nodeFee, "node-fee", 0.02, "USD an hour that a node counts beyond its price, as the controller's setting of this name")
	flags.Float64Var(&f.spotShare, "spot-pool-share", 0.25, "share of a workload that one spot pool should have at most, as the controller's setting of this name; 0 sets no bound")
	flags.Float64Var(&f.spotCost, "spot-spread-max-cost", 0.03, "what that may add to the prices of spot nodes, as a share of them, as the controller's setting of this name")
	flags.DurationVar(&f.timeout, "timeout", 0, "provision: stop deciding after this long, keep what was decided; consolidate: begin no further look; 0 is never")
	return cmd
}

func runPlan(cmd *cobra.Command, f *planFlags, of *clusterFlags, s Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	data, err := readFile(f.scenario, s.In)
	if err != nil {
		return usageError{err}
	}
	if snapshot.Is(data) {
		return planSnapshot(cmd, of, f.scenario, data, s)
	}
	if err := refuseFlags(cmd.Flags(), ofClusters(), "is for a cluster: give it with --live or a snapshot; a scenario has --format"); err != nil {
		return err
	}
	sc, err := decodeScenario(f.scenario, data)
	if err != nil {
		return err
	}
	if f.mode == modeConsolidate {
		return runConsolidate(f, sc, s.Out)
	}
	return runProvision(f, sc, s.Out)
}

// check refuses calls that make no sense, and fills in what was left open.
func (f *planFlags) check() error {
	switch {
	case f.scenario == "":
		return usagef("name a cluster with --live, or a snapshot or scenario file with --scenario, where - is standard input")
	case f.mode != modeProvision && f.mode != modeConsolidate:
		return usagef("--mode %q is not known; want %s or %s", f.mode, modeProvision, modeConsolidate)
	case f.format != formatAuto && f.format != formatJSON && f.format != formatTable:
		return usagef("--format %q is not known; want %s, %s or %s", f.format, formatJSON, formatTable, formatAuto)
	case f.workers < 0:
		return usagef("--workers %d is below zero", f.workers)
	case f.nodeFee < 0 || math.IsNaN(f.nodeFee) || math.IsInf(f.nodeFee, 0):
		return usagef("--node-fee %v is not a sum of money; want a number of zero or more", f.nodeFee)
	case !isShare(f.spotShare):
		return usagef("--spot-pool-share %v is not a share; want a number from 0 to 1", f.spotShare)
	case !isShare(f.spotCost):
		return usagef("--spot-spread-max-cost %v is not a share; want a number from 0 to 1", f.spotCost)
	case f.timeout < 0:
		return usagef("--timeout %v is below zero", f.timeout)
	case f.mode == modeConsolidate && f.out != "":
		return usagef("--out belongs to --mode %s: consolidation changes the cluster, it places no waiting pods", modeProvision)
	case f.mode == modeProvision && f.firstLook:
		return usagef("--first-look belongs to --mode %s", modeConsolidate)
	}
	if f.workers == 0 {
		f.workers = runtime.GOMAXPROCS(0)
	}
	return nil
}

func isShare(v float64) bool { return v >= 0 && v <= 1 }

func (f *planFlags) policy() solve.Policy {
	return solve.Policy{NodeFee: f.nodeFee, SpotShare: f.spotShare, SpotCost: f.spotCost, Workers: f.workers, Greedy: f.greedy}
}

// stop returns what the solver polls: whether the time is up.
func (f *planFlags) stop() func() bool {
	if f.timeout == 0 {
		return func() bool { return false }
	}
	deadline := time.Now().Add(f.timeout)
	return func() bool { return time.Now().After(deadline) }
}

// asTable decides the form of the report. Explanations are for people, unless JSON was requested.
func (f *planFlags) asTable(out io.Writer) bool {
	switch f.format {
	case formatTable:
		return true
	case formatJSON:
		return false
	}
	return f.explain || isTerminal(out)
}

func isTerminal(out io.Writer) bool {
	file, isFile := out.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func toolName() string { return "dovetail " + version.Get().Version }

// writeLine prints one line of JSON, as tools that read scenarios do.
func writeLine(out io.Writer, result any) error {
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}
