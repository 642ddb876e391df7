package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	provision := pair{
		file:   "x/s1-500.json",
		ours:   &figures{Pods: 500, Scheduled: 500, NewNodes: 8, Cost: 10.2, Bound: 10, SetupMs: 0.5, SolveMs: 9.5, BaseRSSMiB: 40, PeakRSSMiB: 45},
		theirs: &figures{NewNodes: 3, Cost: 12, SetupMs: 40, SolveMs: 360, BaseRSSMiB: 40, PeakRSSMiB: 60},
	}
	consolidate := pair{
		file: "x/c1-200.json", consolidates: true,
		ours:   &figures{NodesBefore: 200, NodesAfter: 60, CostBefore: 70, CostAfter: 20, FirstLook: look{ComputeMs: 5}, LastLook: look{ComputeMs: 4}, PlanningMs: 12, PodsMoved: 900},
		theirs: &figures{NodesAfter: 40, CostAfter: 25, FirstMulti: look{20, 400}, FirstSingle: look{20, 60}, MultiMs: 9000, SingleMs: 3000},
	}
	slow := provision
	slow.theirs = &figures{killedAfter: 3 * time.Second}
	for name, tc := range map[string]struct {
		pairs   []pair
		compare bool
		want    string
	}{
		"alone, both modes": {pairs: []pair{provision, consolidate}, want: `
SCENARIO  PODS  PLACED  NODES  SETUP MS  SOLVE MS  MIB     $/H   BOUND    GAP
s1-500     500     500      8      0.50      9.50    5  10.200  10.000  2.00%

SCENARIO  NODES  AFTER     $/H   AFTER  BOUND  GAP  FIRST MS  LAST MS  ALL MS  MOVED  MIB
c1-200      200     60  70.000  20.000  0.000  -        5.00     4.00      12    900    0
`},
		"beside another tool": {pairs: []pair{provision, slow}, compare: true, want: `
SCENARIO  MS   PEER  FASTER  MIB  PEER  LESS  NODES  PEER     $/H    PEER  CHEAPER
s1-500    10    400   40.0x    5    20  4.0x      8     3  10.200  12.000    15.0%
s1-500    10  >3000  300.0x    5     -     -      8     -  10.200       -        -
`},
		"a limit cuts the other tool's time short": {pairs: []pair{consolidate}, compare: true, want: `
SCENARIO  FIRST MS  PEER  FASTER  ALL MS    PEER   FASTER  MIB  PEER  NODES  PEER     $/H    PEER  CHEAPER
c1-200        5.00   500  100.0x      12  >12000  1000.0x    0     0     60    40  20.000  25.000    20.0%
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report{pairs: tc.pairs}
			if got := r.text(tc.compare); got != strings.TrimPrefix(tc.want, "\n") {
				t.Errorf("text() =\n%s\nwant%s", got, tc.want)
			}
		})
	}
}
