package inspect_test

import (
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// EX-10: an answer about 1,000 nodes and 10,000 pods takes less than a second.
func BenchmarkEX_10_Explain(b *testing.B) {
	c, err := snapshottest.New(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 100, Huge: 10, Shapes: 50, Families: 100}).Cluster(awsv1.Vocabulary())
	if err != nil {
		b.Fatal(err)
	}
	for _, about := range []inspect.Subject{
		{Kind: inspect.KindPod, Name: "pending-0000"},
		{Kind: inspect.KindPod, Name: "huge-0000"},
		{Kind: inspect.KindPod, Name: "web-0500-3"},
		{Kind: inspect.KindNode, Name: "node-0500"},
		{Kind: inspect.KindNodePool, Name: snapshottest.PoolName},
	} {
		b.Run(string(about.Kind)+"/"+about.Name, func(b *testing.B) {
			for b.Loop() {
				if _, err := inspect.Explain(c, about); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
