package flow_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group H of the failure modes, and S-047. H09 is a benchmark. Not tested here: H05, which needs a second
// cluster; H10, which needs consolidation; H13, since no termination handler runs here; H14 is a unit test.

// message puts a text into the interruption queue.
func (f *flow) message(body string) {
	f.Helper()
	f.aws(http.MethodPost, "message?queue="+world.Queue, body)
}

// notice is what EventBridge sends for a spot instance that goes.
func notice(instance string) string {
	return fmt.Sprintf(`{"version":"0","id":"x","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":%q,"time":%q,"region":%q,`+
		`"resources":["arn:aws:ec2:eu-west-1a:instance/%s"],"detail":{"instance-id":%q,"instance-action":"terminate"}}`,
		world.Account, time.Now().UTC().Format(time.RFC3339), world.Region, instance, instance)
}

// S-047, S-027, S-203: a spot node is interrupted. Within five seconds its claim goes, a replacement is on
// its way before the instance is taken, and the pods run again.
func TestS_047_SpotInterruption(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("inflate", 2, stopsAfter(1))
	f.running("inflate", 2)
	claim := f.ready(1)[0]
	began := time.Now()
	f.interrupt(&claim, "90s")
	f.claim("is deleting, or a new one", func(c *karpv1.NodeClaim) bool { return c.UID != claim.UID || deleting(c) })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("reaction after %s (S-027: 5 s)", took)
	}
	f.event("NodeClaim", claim.Name, "SpotInterrupted", "")
	f.event("NodeClaim", claim.Name, "TerminatingOnInterruption", "")
	f.running("inflate", 2, 85*time.Second)
	f.gone(&claim)
	next := f.ready(1)[0]
	if next.Labels[corev1.LabelInstanceTypeStable] == claim.Labels[corev1.LabelInstanceTypeStable] && next.Labels[corev1.LabelTopologyZone] == claim.Labels[corev1.LabelTopologyZone] {
		t.Errorf("the successor is of the offering that was just taken back: %s in %s", next.Labels[corev1.LabelInstanceTypeStable], next.Labels[corev1.LabelTopologyZone])
	}
	if !f.logged("initiating delete from interruption message", claim.Name) {
		t.Error("the log says nothing of the interruption (S-172)")
	}
}

// H01: messages that are none are dropped, and the next one is handled.
func TestFM_H01_MalformedMessages(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	for _, body := range []string{"{", "null", "[]", "text", `{"detail-type":7}`, `{"version":"0","source":"aws.ec2","detail-type":"of a kind yet to come","detail":{}}`, strings.Repeat("x", 200_000)} {
		f.message(body)
	}
	f.interrupt(&claim, "60s")
	f.gone(&claim)
	f.await(soon, "an empty queue", func() (bool, string) {
		answer := f.aws(http.MethodGet, "queues", "")
		return !strings.Contains(answer, "of a kind yet to come"), answer
	})
	f.running("inflate", 1)
}

// H02, H08: the same message five times, which cannot be deleted at first, leads to one deletion.
func TestFM_H02_TheSameMessageAgain(t *testing.T) {
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.awsFault(`{"action":"sqs:DeleteMessage*","count":2,"code":"InternalError","message":"broken by the test","status":500}`)
	for range 5 {
		f.message(notice(instanceOf(&claim)))
	}
	f.gone(&claim)
	f.running("inflate", 1)
	f.stays(25*time.Second, "one successor", func() (bool, string) {
		n := len(f.allInstances())
		return n == 2, fmt.Sprintf("%d instances", n)
	})
}

// H03: the message comes before the claim is known by its instance.
func TestFM_H03_MessageComesEarly(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.nodeFault(joinLate(10 * time.Second))
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.await(soon, "an instance", func() (bool, string) { return len(f.instances()) == 1, "" })
	first := f.instances()[0].ID
	f.aws(http.MethodPost, "interrupt", fmt.Sprintf(`{"instance":%q,"notice":"45s"}`, first))
	f.running("inflate", 1, later)
	if f.stateOf(first) == "running" {
		t.Errorf("instance %s still runs", first)
	}
}

// H04: a late message for an instance that is gone does nothing.
func TestFM_H04_LateMessage(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.gone(&claim)
	f.running("inflate", 1)
	next := f.ready(1)[0]
	f.message(notice(instanceOf(&claim)))
	f.stays(8*time.Second, "the successor", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == next.UID && !deleting(&c[0]), sayConditions(c)
	})
}

// H06, H07: the queue cannot be read for a while. Provisioning goes on, and afterwards the messages are read.
func TestFM_H07_QueueCannotBeRead(t *testing.T) {
	f := newFlow(t)
	mend := f.awsFault(`{"action":"sqs:ReceiveMessage","code":"AccessDenied","message":"broken by the test","status":403}`)
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	before := len(server.World.AWS.Calls(wire.SQS, "ReceiveMessage"))
	time.Sleep(10 * time.Second)
	if n := len(server.World.AWS.Calls(wire.SQS, "ReceiveMessage")) - before; n > 50 {
		t.Errorf("%d calls of ReceiveMessage in ten seconds", n)
	}
	f.message(notice(instanceOf(&claim)))
	mend()
	f.gone(&claim, later)
	f.running("inflate", 1)
}

// H11: the pods need longer than the notice. They are evicted at once, and run elsewhere.
func TestFM_H11_PodsNeedLonger(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("slow", 1, stopsAfter(600))
	pod := f.running("slow", 1)[0]
	claim := f.ready(1)[0]
	f.interrupt(&claim, "15s")
	f.event("Pod", pod.Name, "Evicted", "", 15*time.Second)
	f.gone(&claim, later)
	f.await(later, "a pod that runs", func() (bool, string) {
		for _, p := range f.pods("slow") {
			if p.UID != pod.UID && p.Status.Phase == corev1.PodRunning {
				return true, ""
			}
		}
		return false, ""
	})
}

// H12, S-137: recommendations are events, and nothing else.
func TestFM_H12_RebalanceRecommendations(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("", spot)
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	for range 20 {
		f.aws(http.MethodPost, "rebalance", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	}
	f.event("NodeClaim", claim.Name, "SpotRebalanceRecommendation", "")
	f.stays(5*time.Second, "the claim", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && !deleting(&c[0]), sayConditions(c)
	})
}

// A scheduled change of the host leads to a replacement.
func TestAWS_7_1_ScheduledChange(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.aws(http.MethodPost, "health", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	f.event("NodeClaim", claim.Name, "InstanceUnhealthy", "")
	f.gone(&claim)
	f.running("inflate", 1)
}
