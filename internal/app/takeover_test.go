package app

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// fleet is a pool, its class and its claims, as objects in a cluster.
type fleet struct {
	t      *testing.T
	pool   *karpv1.NodePool
	class  *awsv1.EC2NodeClass
	claims []karpv1.NodeClaim
	now    time.Time
}

// karpenters is a fleet as Karpenter leaves it: with its hashes, of its versions, and one claim from a time
// before there were any.
func karpenters(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), pool: &karpv1.NodePool{}, class: &awsv1.EC2NodeClass{}}
	f.pool.Name, f.class.Name = "general", "default"
	f.pool.Annotations = map[string]string{karpv1.AnnotationNodePoolHash: "1234567890", karpv1.AnnotationNodePoolHashVersion: "v3"}
	f.pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
	f.pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}
	f.class.Annotations = map[string]string{awsv1.AnnotationNodeClassHash: "987654321", awsv1.AnnotationNodeClassHashVersion: "v6"}
	f.class.Spec.Role = "nodes"
	f.class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	for i := range 4 {
		c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("general-%d", i), CreationTimestamp: metav1.NewTime(f.now.Add(-time.Hour))}}
		c.Labels = map[string]string{karpv1.LabelNodePool: "general", corev1.LabelArchStable: "amd64"}
		c.Annotations = map[string]string{}
		if i > 0 {
			maps.Copy(c.Annotations, f.pool.Annotations)
			maps.Copy(c.Annotations, f.class.Annotations)
		}
		for _, name := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: name, LastTransitionTime: metav1.NewTime(f.now.Add(-time.Hour))})
		}
		f.claims = append(f.claims, c)
	}
	return f
}

// writes are what the controllers of pools and of classes would write now, in their order.
func (f *fleet) writes() (ofPool, ofClass []func()) {
	f.t.Helper()
	step, err := pool.Next(pool.Facts{Pool: f.pool, Claims: f.claims, Words: awsv1.Vocabulary(), Now: metav1.NewTime(f.now)})
	if err != nil {
		f.t.Fatal(err)
	}
	onto := func(claim string, annotations map[string]string) func() {
		return func() {
			for i := range f.claims {
				if f.claims[i].Name == claim {
					maps.Copy(f.claims[i].Annotations, annotations)
				}
			}
		}
	}
	for _, s := range step.Restamp {
		ofPool = append(ofPool, onto(s.Claim, s.Annotations))
	}
	if step.Annotations != nil {
		ofPool = append(ofPool, func() { maps.Copy(f.pool.Annotations, step.Annotations) })
	}
	hash, err := classhash.Of(f.class, awsv1.Facts{ClusterName: "prod", KubernetesMinor: 34}, "")
	if err != nil {
		f.t.Fatal(err)
	}
	onClass, onClaims := nodeclass.Stamps(f.class, f.claims, hash)
	for _, s := range onClaims {
		ofClass = append(ofClass, onto(s.Claim, s.Annotations))
	}
	if onClass != nil {
		ofClass = append(ofClass, func() { maps.Copy(f.class.Annotations, onClass) })
	}
	return ofPool, ofClass
}

// drifted marks all claims and counts those that are Drifted.
func (f *fleet) drifted() int {
	n := 0
	for i := range f.claims {
		c := &f.claims[i]
		why := drift.Pool(f.pool, c, awsv1.Vocabulary())
		if why.Code == "" {
			why = nodeclass.Drift(f.class, c, nodeclass.Instance{}, nodeclass.Wanted{})
		}
		c.Status.Conditions, _ = disrupt.Marks(disrupt.MarkFacts{Claim: c, Pool: f.pool, Drift: why, Now: f.now})
		if condition.True(c.Status.Conditions, karpv1.ConditionDrifted) {
			n++
		}
	}
	return n
}

// Disruption 25.17, FM C09, README decision 4: a cluster of Karpenter's is taken over. Its hashes are of another
// version, and mean nothing here. Whatever is written in whatever order, and wherever the process dies
// meanwhile, no claim is Drifted for it at any moment; what Karpenter found to have drifted stays so.
func TestTakeOverDriftsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 17))
		f := karpenters(t)
		old := random.IntN(2)
		if old == 1 {
			f.claims[3].Annotations[karpv1.AnnotationNodePoolHash] = "42"
		}
		if n := f.drifted(); n != old {
			t.Fatalf("seed %d: %d claims are Drifted before anything was written, want %d", seed, n, old)
		}
		for range 6 { // processes
			ofPool, ofClass := f.writes()
			for lives := random.IntN(8) + 1; lives > 0 && len(ofPool)+len(ofClass) > 0; lives-- {
				list := &ofPool
				if len(ofPool) == 0 || len(ofClass) > 0 && random.IntN(2) == 0 {
					list = &ofClass
				}
				(*list)[0]()
				*list = (*list)[1:]
				if n := f.drifted(); n > old {
					t.Fatalf("seed %d: %d claims are Drifted, want at most %d", seed, n, old)
				}
			}
		}
		if ofPool, ofClass := f.writes(); len(ofPool)+len(ofClass) > 0 {
			t.Fatalf("seed %d: the take-over is not over", seed)
		}
		if n := f.drifted(); n != old {
			t.Errorf("seed %d: %d claims are Drifted in the end, want %d", seed, n, old)
		}
		for i := range f.claims {
			if a := f.claims[i].Annotations; a[karpv1.AnnotationNodePoolHashVersion] != drift.PoolHashVersion || a[awsv1.AnnotationNodeClassHashVersion] != classhash.Version {
				t.Errorf("seed %d: %s carries %v, want our versions", seed, f.claims[i].Name, a)
			}
		}
		f.pool.Spec.Template.ObjectMeta.Labels = map[string]string{"team": "a"} // a change that the user makes does drift
		ofPool, _ := f.writes()
		for _, write := range ofPool {
			write()
		}
		if n := f.drifted(); n != len(f.claims) {
			t.Errorf("seed %d: %d claims are Drifted after a change of the pool, want all", seed, n)
		}
	}
}
