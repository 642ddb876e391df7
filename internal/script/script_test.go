package script_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/script"
)

// The documentation of every command runs as written.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	for _, command := range script.Commands() {
		t.Run(command.Name, func(t *testing.T) {
			t.Parallel()
			if !strings.HasPrefix(command.Usage, command.Name) {
				t.Errorf("usage %q does not start with the command", command.Usage)
			}
			if !strings.Contains("\n"+command.Example, "\n"+command.Name) {
				t.Errorf("example %q does not show the command", command.Example)
			}
			if _, err := script.New().Run(command.Example); err != nil {
				t.Error(err)
			}
		})
	}
}

// An error names the line and how to write it.
func TestFaultsNameTheLineAndTheFix(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"unknown command":    {"\nnodes name=a", "line 2: command \"nodes\" is not known; use one of types, type, pool"},
		"unknown argument":   {"pool name=a wieght=1", `line 1: pool: argument "wieght" is not known; usage: pool name=`},
		"missing name":       {"pod cpu=1", "name= is missing; write name=something"},
		"given twice":        {"pod name=a name=b", "name= is given 2 times"},
		"open quote":         {`pod name=a requires="zone in a`, "a quote is not closed"},
		"bad quantity":       {"pod name=a cpu=lots", "cpu=lots is not a quantity; write a number such as 500m"},
		"bad requirement":    {`pod name=a requires="zone a"`, `"zone a" is not a requirement; write "key in a,b"`},
		"values for exists":  {`pod name=a requires="zone exists a"`, "is not a requirement"},
		"pool alternatives":  {`pool name=a requires="zone in a or zone in b"`, "a pool has no alternatives"},
		"bad taint":          {"pool name=a taints=x", "taint x has no effect; write key=value:NoSchedule"},
		"bad spread":         {"pod name=a spread=zone", "write spread=zone/1"},
		"bad spread option":  {"pod name=a spread=zone/1/max:2", "spread option max is not known; use min:"},
		"bad affinity":       {"pod name=a affinity=zone", "write affinity=zone/app=web"},
		"node without type":  {"pool name=a\nnode name=n pool=a", `line 2: node: pool "a" or type "" is not there`},
		"unmanaged node":     {"node name=n", "an unmanaged node needs cpu="},
		"bound nowhere":      {"bound name=a node=n", `there is no node "n"; write its line above`},
		"same pod twice":     {"pod name=a\npod name=a", "line 2: pod: there is a pod a already"},
		"same node twice":    {"node name=n cpu=1\nnode name=n cpu=1", "there is a node n already"},
		"type for nothing":   {"type name=t cpu=1", "no offering is given; write price="},
		"unknown built-in":   {"types c5.large c9.huge", "c9.huge is not built in; describe it with type name=c9.huge"},
		"wrong price zone":   {"type name=t cpu=1 price=1@d", "zone d is not among zones="},
		"wrong reservation":  {"type name=t cpu=1 reserved=cr-1", "is not id:count@zone; write reserved=cr-1:2@a"},
		"wrong unavailable":  {"type name=t cpu=1 price=1 unavailable=x/spot", "names no offering"},
		"unknown column why": {"solve why=maybe", "write why=all or why=codes"},
		"unknown keep":       {"reset keep=nodes", "write keep=types,pools"},
		"unknown without":    {"without n", "there is no node n"},
		"unknown candidate":  {"consolidate candidates=n", "there is no node n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := script.New().Run(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run() error %v\nwant %s", err, tc.want)
			}
		})
	}
}

// Of several faults in one argument always the same is reported.
func TestFirstFaultIsReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pod name=a spread=zone/1/d:1/b:2/a:3/c:4":                  "spread option a is not known",
		"pod name=a affinity=zone/app=web/d:1/b:2/a:3/c:4":          "affinity option a is not known",
		"type name=t cpu=1 price=1 volumes=d:many,b:few,a:some,c:x": "volumes=a:some is not a count",
	} {
		for range 50 {
			if _, err := script.New().Run(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: error %v\nwant %s", text, err, want)
			}
		}
	}
}

// What lines say arrives in the snapshot.
func TestSnapshotHoldsWhatWasSaid(t *testing.T) {
	t.Parallel()
	w := script.New()
	if _, err := w.Run(`
types c5.large
type name=big cpu=16 price=1 reserved=cr-1:2@a unavailable=b/on-demand overhead=cpu:500m volumes=ebs:3
pool name=low limits=cpu:20,memory:1Ti nodes=3 requires="zone in a,b" minvalues=type:2 labels=team:x
pool name=high weight=10 types=big closed
node name=n2 pool=low type=big zone=b
node name=n1 cpu=4 taints=a=b:NoExecute labels=zone:c
bound name=old cpu=1 node=n1
bound name=guarded cpu=1 node=n2 stays
node name=n3 pool=low type=c5.large deleting
bound name=going count=2 cpu=500m node=n3
pod name=web count=2 cpu=1 spread=zone/1 ports=80 volumes=ebs/data-{n} zones="a or b"
pod name=db cpu=1 ns=data
daemon name=logs cpu=100m
`); err != nil {
		t.Fatal(err)
	}
	view, pods := w.Snapshot()
	var got []string
	for _, p := range view.Pools {
		line := "pool " + p.Name + ": " + p.Requirements.String()
		for _, limit := range p.Limits {
			line += " " + string(limit.Resource)
		}
		got = append(got, line)
	}
	for _, n := range view.Nodes {
		got = append(got, "node "+n.Name+" "+n.Zone+" "+view.Resources.Format(n.Allocatable))
	}
	for _, p := range pods {
		got = append(got, "pod "+p.Key.String()+" "+view.Resources.Format(p.Shape.Requests))
	}
	for _, d := range view.Daemons {
		got = append(got, "daemon "+d.Key.String())
	}
	want := []string{
		"pool high: karpenter.sh/nodepool In [high]",
		"pool low: karpenter.sh/nodepool In [low]; node.kubernetes.io/instance-type Exists, minValues 2; team In [x]; topology.kubernetes.io/zone In [a b] cpu memory",
		"node n1 c cpu:4,pods:110",
		"node n2 b cpu:15500m,memory:64Gi,pods:110",
		"node n3 a cpu:2,memory:4Gi,pods:29",
		"pod data/db cpu:1,pods:1",
		"pod default/web-1 cpu:1,pods:1",
		"pod default/web-2 cpu:1,pods:1",
		"pod default/going-1 cpu:500m,pods:1",
		"pod default/going-2 cpu:500m,pods:1",
		"daemon default/logs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	low := view.Pools[1]
	if left := low.Limits[0].Remaining; left != 4000 || *low.NodeLimit != 2 {
		t.Errorf("%d cpu and %d nodes are left of the limits, want 4000 and 2", left, *low.NodeLimit)
	}
	if len(view.Pools[0].Types) != 1 || !view.Pools[0].Closed {
		t.Errorf("pool high has %d types, closed %v; want 1, true", len(view.Pools[0].Types), view.Pools[0].Closed)
	}
	if pods[1].Shape == pods[2].Shape {
		t.Error("pods with different claims share a shape")
	}
	if pods[3].Shape != pods[4].Shape {
		t.Error("equal pods do not share a shape")
	}
}
