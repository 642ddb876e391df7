package app

import (
	"maps"
	"math/rand/v2"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// stamp is the name of the annotations of a hash and of its version.
type stamp struct{ hash, version string }

func poolStamp() stamp {
	return stamp{karpv1.AnnotationNodePoolHash, karpv1.AnnotationNodePoolHashVersion}
}

func classStamp() stamp {
	return stamp{awsv1.AnnotationNodeClassHash, awsv1.AnnotationNodeClassHashVersion}
}

// differs is the rule of drift by hash, which both controllers follow (disruption 18): the hashes differ and
// are of one version; without one of them nothing is known.
func (s stamp) differs(of, claim map[string]string) bool {
	for _, key := range []string{s.hash, s.version} {
		if of[key] == "" || claim[key] == "" {
			return false
		}
	}
	return of[s.version] == claim[s.version] && of[s.hash] != claim[s.hash]
}

// driftedForKarpenter counts the claims that Karpenter would replace for their hashes.
func (f *fleet) driftedForKarpenter() (n int) {
	for i := range f.claims {
		if a := f.claims[i].Annotations; poolStamp().differs(f.pool.Annotations, a) || classStamp().differs(f.class.Annotations, a) {
			n++
		}
	}
	return n
}

// karpenterWrites are what Karpenter writes when it finds versions that are not its own: its stamps on all
// claims, then on the owner.
func (f *fleet) karpenterWrites(theirs *fleet) []func() {
	var out []func()
	for _, one := range []struct {
		stamp
		owner, want map[string]string
	}{{poolStamp(), f.pool.Annotations, theirs.pool.Annotations}, {classStamp(), f.class.Annotations, theirs.class.Annotations}} {
		if one.owner[one.version] == one.want[one.version] {
			continue
		}
		stamps := map[string]string{one.hash: one.want[one.hash], one.version: one.want[one.version]}
		for i := range f.claims {
			out = append(out, func() { maps.Copy(f.claims[i].Annotations, stamps) })
		}
		out = append(out, func() { maps.Copy(one.owner, stamps) })
	}
	return out
}

// FM C10: a cluster goes back to Karpenter, in the middle of the take-over or after it. No claim is Drifted for
// Karpenter at any moment on the way, and in the end all carry its stamps again.
func TestFM_C10_GivenBackToKarpenter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 10))
		f, theirs := karpenters(t), karpenters(t)
		step := func(write func()) {
			write()
			if n := f.driftedForKarpenter(); n > 0 {
				t.Fatalf("seed %d: %d claims would be replaced by Karpenter", seed, n)
			}
		}
		for range random.IntN(4) { // processes of ours, each of which may die at once
			ofPool, ofClass := f.writes()
			for lives := random.IntN(8) + 1; lives > 0 && len(ofPool)+len(ofClass) > 0; lives-- {
				list := &ofPool
				if len(ofPool) == 0 || len(ofClass) > 0 && random.IntN(2) == 0 {
					list = &ofClass
				}
				step((*list)[0])
				*list = (*list)[1:]
			}
		}
		for _, write := range f.karpenterWrites(theirs) {
			step(write)
		}
		if len(f.karpenterWrites(theirs)) > 0 {
			t.Errorf("seed %d: stamps of ours are left on %v or %v", seed, f.pool.Annotations, f.class.Annotations)
		}
	}
}
