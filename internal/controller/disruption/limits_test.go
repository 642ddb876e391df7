package disruption_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// contested is a pool of one large node that may grow by one more. A pod waits for it, and drift wants two
// large nodes in place of the one.
func contested(t *testing.T) *fixture {
	t.Helper()
	s := newFixture(t, interceptor.Funcs{})
	s.limit("20")
	s.node("a", "web", "api")
	s.create(controllertest.PendingPod("waits", "7500m")) // more than a replacement has left
	s.decide = func(v disrupt.View) []disrupt.Command {
		c := command(v, karpv1.ReasonDrifted, "", disrupt.Replace, "a")
		if len(c.Remove) == 0 {
			return nil
		}
		for _, pod := range podsOf(c) {
			c.Create = append(c.Create, solve.NewNode{
				Pool: "general", Types: []string{"large"}, Requests: v.Cluster.Resources.Requests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}),
				Pods: []cluster.PodKey{pod}, Needs: reqs.FromLabels(map[string]string{karpv1.LabelNodePool: "general"}, awsv1.Vocabulary()),
			})
		}
		return []disrupt.Command{c}
	}
	return s
}

func (s *fixture) limit(cpu string) {
	s.t.Helper()
	pool := controllertest.ReadyPool("general")
	edit(s, pool, func(p *karpv1.NodePool) {
		p.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	})
}

// withinLimit checks that the pool keeps its limit whichever way the command ends; every claim that it
// launched can only become a large node.
func (s *fixture) withinLimit(most int) {
	s.t.Helper()
	launched, replacements := 0, 0
	there, gone := s.claims()
	for _, name := range there {
		if s.claim(name).Annotations[karpv1.AnnotationReplaces] != "" {
			replacements++
		} else {
			launched++
		}
	}
	if cpu := 8 * max(launched, launched-1+replacements); cpu > most {
		s.t.Errorf("claims %v and replacements %d come to %d cores, the limit is %d (%d go)", there, replacements, cpu, most, len(gone))
	}
}

// G10: provisioning has planned, then drift orders its replacements. What is left is for one of them only,
// and the other one has its turn when there is room.
func TestG10_DriftOrdersBetweenPlanAndOrder(t *testing.T) {
	t.Parallel()
	s := contested(t)
	s.plans.Planned = func(_, _ []cluster.PodKey) {
		s.plans.Planned = nil
		if err := s.Pass(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.plans.Pass(t.Context())
	s.sync()
	s.withinLimit(20)
	if made := s.replacements(); len(made) != 2 {
		t.Fatalf("%d claims, want the two of drift", len(made))
	}
	s.decide = nil
	s.limit("32")
	s.plans.Pass(t.Context())
	if made := s.replacements(); len(made) != 3 {
		t.Errorf("%d claims, want one for the pod that waits when there is room", len(made))
	}
}

// G10: drift has decided, then provisioning orders. Drift writes nothing, releases its node, and comes again.
func TestG10_ProvisioningOrdersBetweenDecisionAndOrder(t *testing.T) {
	t.Parallel()
	s := contested(t)
	decide := s.decide
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.plans.Pass(t.Context())
		return decide(v)
	}
	if err := s.pass(); err == nil {
		t.Error("drift does not say that it found no room")
	}
	s.withinLimit(20)
	if made := s.replacements(); len(made) != 1 {
		t.Fatalf("%d claims, want the one for the pod that waits", len(made))
	}
	if held := s.tainted(); len(held) > 0 {
		t.Errorf("nodes %v are held by a command that was given up", held)
	}
	s.decide = decide
	s.limit("32")
	s.mustPass()
	if made := s.replacements(); len(made) != 3 {
		t.Errorf("%d claims, want the two of drift too when there is room", len(made))
	}
}

// G10: both at once, however they meet.
func TestG10_BothOrderAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := contested(t)
		var both sync.WaitGroup
		both.Go(func() { s.plans.Pass(t.Context()) })
		both.Go(func() {
			if err := s.Pass(t.Context()); err != nil {
				t.Log(err) // no room
			}
		})
		both.Wait()
		s.sync()
		s.withinLimit(20)
		if made := s.replacements(); len(made) == 0 {
			t.Error("both gave up")
		}
	}
}
