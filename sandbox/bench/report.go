package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// Report is what a benchmark measured.
type Report struct {
	Nodes  int              `json:"nodes"`
	Pods   int              `json:"pods"`
	Load   string           `json:"loadAverage,omitempty"` // of the machine, at the end
	Phases []Phase          `json:"phases"`
	Heap   map[string]int64 `json:"liveHeapBytesByPart,omitempty"` // with all pods running
}

const mib = 1 << 20

// Print writes the report as tables, and how it was measured.
func (r Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "\n%d nodes, %d pods; load average of the machine %s\n\n", r.Nodes, r.Pods, r.Load)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "phase\twall s\tCPU s\tcores\tpeak RSS MiB\theap MiB\tAPI requests\tAWS calls\t")
	var sum Phase
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%d\t%d\t%d\t%d\t\n", p.Name, p.Wall, p.CPU, p.CPU/max(p.Wall, 1e-9), p.PeakRSS/mib, p.Heap/mib, p.Requests, p.AWSCalls)
		sum.Wall, sum.CPU, sum.Requests, sum.AWSCalls = sum.Wall+p.Wall, sum.CPU+p.CPU, sum.Requests+p.Requests, sum.AWSCalls+p.AWSCalls
		sum.PeakRSS = max(sum.PeakRSS, p.PeakRSS)
	}
	fmt.Fprintf(w, "all\t%.1f\t%.1f\t%.2f\t%d\t\t%d\t%d\t\n", sum.Wall, sum.CPU, sum.CPU/max(sum.Wall, 1e-9), sum.PeakRSS/mib, sum.Requests, sum.AWSCalls)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.printParts(out); err != nil {
		return err
	}
	return r.printHeap(out)
}

// printParts is a table of CPU seconds: a row for each part, a column for each phase.
func (r Report) printParts(out io.Writer) error {
	sums := map[string]float64{}
	for _, p := range r.Phases {
		for part, seconds := range p.Parts {
			sums[part] += seconds
		}
	}
	fmt.Fprint(out, "\nCPU seconds by part, from the labels of a CPU profile at 100 Hz, scaled to the CPU seconds above.\n"+
		"Each part has its own half of a request; what the Go runtime does for all of them is a row of its own.\n\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "part\tall\t")
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s\t", p.Name)
	}
	fmt.Fprintln(w)
	for _, part := range keysByValue(sums) {
		if sums[part] < 0.05 {
			continue
		}
		fmt.Fprintf(w, "%s\t%.1f\t", part, sums[part])
		for _, p := range r.Phases {
			fmt.Fprintf(w, "%.1f\t", p.Parts[part])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func (r Report) printHeap(out io.Writer) error {
	if len(r.Heap) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nLive heap by part with all pods running, from the sampled heap profile by allocating package.\n"+
		"The resident set is larger by garbage that was not collected yet, and by the file that etcd maps.\n\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "part\tMiB\t")
	for _, part := range keysByValue(r.Heap) {
		fmt.Fprintf(w, "%s\t%d\t\n", part, r.Heap[part]/mib)
	}
	return w.Flush()
}

// keysByValue are the keys by their value, the largest first.
func keysByValue[N cmp.Ordered](m map[string]N) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
}
