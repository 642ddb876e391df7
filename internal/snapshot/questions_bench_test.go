package snapshot_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// large is a cluster of 1,000 nodes and 10,000 pods, of which 110 are pending, with 600 instance types.
func large() *snapshot.File {
	return snapshottest.New(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 100, Huge: 10, Shapes: 50, Families: 100})
}

// decoded is a client whose responses are there already: objects as client-go has decoded them.
type decoded struct {
	client.Reader

	objects *snapshot.Objects
}

// List implements client.Reader.
func (d decoded) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.PodList:
		l.Items = d.objects.Pods
	case *corev1.NodeList:
		l.Items = d.objects.Nodes
	case *corev1.NamespaceList:
		l.Items = d.objects.Namespaces
	case *karpv1.NodePoolList:
		l.Items = d.objects.NodePools
	case *karpv1.NodeClaimList:
		l.Items = d.objects.NodeClaims
	case *appsv1.DaemonSetList:
		l.Items = d.objects.DaemonSets
	}
	return nil
}

// copied are objects that the next question may change.
func copied(o *snapshot.Objects) *snapshot.Objects {
	out := &snapshot.Objects{}
	for i := range o.Pods {
		out.Pods = append(out.Pods, *o.Pods[i].DeepCopy())
	}
	for i := range o.Nodes {
		out.Nodes = append(out.Nodes, *o.Nodes[i].DeepCopy())
	}
	for i := range o.Namespaces {
		out.Namespaces = append(out.Namespaces, *o.Namespaces[i].DeepCopy())
	}
	for i := range o.NodePools {
		out.NodePools = append(out.NodePools, *o.NodePools[i].DeepCopy())
	}
	for i := range o.NodeClaims {
		out.NodeClaims = append(out.NodeClaims, *o.NodeClaims[i].DeepCopy())
	}
	return out
}

// EX-10: all that a question takes once the API server has responded: the objects that client-go has decoded are read, the
// view of decisions is made of them, and the question is answered and laid out, on one CPU. Instance types and prices are
// there already.
func BenchmarkEX_10_QuestionsFromResponses(b *testing.B) {
	file := large()
	about := func(kind inspect.Kind, name string) func(ctx context.Context, s *snapshot.Service) error {
		return func(ctx context.Context, s *snapshot.Service) error {
			e, err := s.Explain(ctx, inspect.Subject{Kind: kind, Name: name})
			_ = e.Document()
			return err
		}
	}
	for _, question := range []struct {
		name string
		run  func(ctx context.Context, s *snapshot.Service) error
	}{
		{"fleet", func(ctx context.Context, s *snapshot.Service) error {
			_, err := s.Fleet(ctx)
			return err
		}},
		{"explain-pending-pod", about(inspect.KindPod, "pending-0000")},
		{"explain-huge-pod", about(inspect.KindPod, "huge-0000")},
		{"explain-running-pod", about(inspect.KindPod, "web-0500-3")},
		{"explain-node", about(inspect.KindNode, "node-0500")},
		{"explain-nodepool", about(inspect.KindNodePool, snapshottest.PoolName)},
		{"plan", func(ctx context.Context, s *snapshot.Service) error {
			c, err := s.Plan(ctx, inspect.WhatIf{})
			_ = c.Document()
			return err
		}},
	} {
		b.Run(question.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				from := decoded{objects: copied(&file.Objects)}
				b.StartTimer()
				o := options()
				o.Market = snapshot.MarketOf(file)
				read, err := snapshot.Read(b.Context(), from, o)
				if err != nil {
					b.Fatal(err)
				}
				read.Settings.Policy.Workers = 1
				if err := question.run(b.Context(), &snapshot.Service{File: read, Words: awsv1.Vocabulary()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
