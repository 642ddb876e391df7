package launch

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/batch"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// outcome is what became of some claims.
type outcome struct {
	ids    map[string]string // by id: claim
	failed int
}

func (l *fixture) many(n int) outcome {
	out := outcome{ids: map[string]string{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			name := fmt.Sprint(i)
			got, err := l.Launch(l.t.Context(), l.request(nodeClaim(name)))
			mu.Lock()
			defer mu.Unlock()
			switch other, taken := out.ids[got.ID]; {
			case err != nil:
				out.failed++
				if !cloud.Is(err, cloud.NoCapacity) {
					l.t.Errorf("claim %s: %v", name, err)
				}
			case taken:
				l.t.Errorf("claims %s and %s both got %s", name, other, got.ID)
			default:
				out.ids[got.ID] = name
			}
		})
	}
	all.Wait()
	return out
}

func TestFM_A05_IdsAreDealtOnce(t *testing.T) {
	t.Parallel()
	types := []catalog.InstanceType{kind("m5.large", spot("a", 1))}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		l.free["subnet-a"] = 1_000_000
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			if n > 1 {
				t.Error("what is out is requested again")
			}
			out := l.serve(in, nil)
			out.Instances[0].InstanceIds = out.Instances[0].InstanceIds[:30]
			out.Errors = []ec2types.CreateFleetError{{ErrorCode: new("InsufficientInstanceCapacity"), LaunchTemplateAndOverrides: out.Instances[0].LaunchTemplateAndOverrides}}
			return out, nil
		}
		got := l.many(50)
		if len(got.ids) != 30 || got.failed != 20 || *l.fleets[0].TargetCapacitySpecification.TotalTargetCapacity != 50 {
			t.Errorf("%d ids, %d failures", len(got.ids), got.failed)
		}
		if n := series(l.o.Metrics.LaunchFailures); n != 1 {
			t.Errorf("%d series of failures", n)
		}
	})
}

// Claims that get nothing stay together when they request what is left.
func TestLeftoversStayTogether(t *testing.T) {
	t.Parallel()
	types := []catalog.InstanceType{kind("m5.large", spot("a", 1), onDemand("a", 2))}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		l.free["subnet-a"] = 1_000_000
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string {
				if n == 1 {
					return "InsufficientInstanceCapacity"
				}
				return ""
			}), nil
		}
		if got := l.many(50); len(got.ids) != 50 || len(l.fleets) != 2 {
			t.Errorf("%d ids in %d requests", len(got.ids), len(l.fleets))
		}
	})
}

func TestFM_A04_MoreThanRequested(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			out := l.serve(in, nil)
			out.Instances[0].InstanceIds = append(out.Instances[0].InstanceIds, "i-surplus")
			return out, nil
		}
		if got := l.must(l.request(nodeClaim("x"))); got.ID != "i-1" {
			t.Error(got.ID)
		}
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		responses := []error{
			errors.New("connection reset"),             // nothing is known: the same token
			fault("InternalError", "sorry"),            // neither here
			fault("RequestLimitExceeded", "slow down"), // nor here
			fault("InvalidParameterValue", "no"),       // for certain: a new token
			fault("IdempotentParameterMismatch", "?"),  // used before: a new token
		}
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			if n <= len(responses) {
				return nil, responses[n-1]
			}
			return l.serve(in, nil), nil
		}
		for n := range responses {
			_, err := l.Launch(t.Context(), l.request(nodeClaim("x")))
			if cloud.Is(err, cloud.NoCapacity) || cloud.Is(err, cloud.NotFound) || err == nil {
				t.Errorf("E09 response %d: %v", n, err)
			}
			if used := errors.Is(err, ErrTokenUsed); used != (n == 4) {
				t.Errorf("A01 response %d is %v", n, err)
			}
		}
		l.must(l.request(nodeClaim("x")))
		l.must(l.request(nodeClaim("x")))
		l.must(l.request(nodeClaim("y")))
		number := map[string]int{}
		var tokens []int
		for _, f := range l.fleets {
			token := *f.ClientToken
			if _, known := number[token]; !known {
				number[token] = len(number)
			}
			tokens = append(tokens, number[token])
		}
		if diff := cmp.Diff([]int{0, 0, 0, 0, 1, 2, 2, 3}, tokens); diff != "" {
			t.Error(diff)
		}
	})
	after := newAttempts(time.Now)
	if token := after.token([]types.UID{"b", "a"}); token != after.token([]types.UID{"a", "b"}) || len(token) != 36 || strings.Count(token, "-") != 4 {
		t.Errorf("token %s depends on the order, or has no shape", token)
	}
}

// Claims that get nothing retry in the order in which they came: who sets addresses aside first gets the
// subnet that has most, and a map would say who that is.
func TestClaimsRetryInOrder(t *testing.T) {
	t.Parallel()
	want := []string{"subnet-b", "subnet-b2", "subnet-b3", "subnet-b4"}
	for range 20 {
		l := newFixture(t, kind("m5.large", spot("a", 1), onDemand("b", 2)))
		l.free["subnet-b"], l.free["subnet-b2"], l.free["subnet-b3"], l.free["subnet-b4"] = 100, 90, 80, 75
		l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string {
				if in.TargetCapacitySpecification.DefaultTargetCapacityType == ec2types.DefaultTargetCapacityTypeSpot {
					return "InsufficientInstanceCapacity"
				}
				return ""
			}), nil
		}
		class := nodeClass()
		for _, id := range []string{"subnet-b2", "subnet-b3", "subnet-b4"} {
			class.Status.Subnets = append(class.Status.Subnets, awsv1.Subnet{ID: id, Zone: "b", ZoneID: "b-id"})
		}
		var tickets []*ticket
		for _, name := range []string{"one", "two", "three", "four"} {
			claim := nodeClaim(name)
			claim.Labels["team"] = name // so that each is a request of its own
			r := Request{Claim: claim, Class: class, Types: l.types}
			ticket, err := l.prepareTicket(t.Context(), r, wants(t, claim))
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		got := make([]string, len(tickets))
		var mu sync.Mutex
		l.runBatch(t.Context(), tickets, func(n int, done batch.Result[Result]) {
			mu.Lock()
			defer mu.Unlock()
			got[n] = done.Value.Subnet
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("subnets of the claims (-want +got):\n%s", diff)
		}
	}
}

// An instance that is launched has an owner as soon as EC2 says so, however long the rest of its batch looks for
// others: the collector ends instances without one after thirty seconds.
func TestTrust_A07_WinnersDoNotWaitForLosers(t *testing.T) {
	t.Parallel()
	types := []catalog.InstanceType{kind("m5.large", spot("a", 1), onDemand("a", 2))}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		l.free["subnet-a"] = 1_000_000
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			out := l.serve(in, nil)
			if n > 1 {
				time.Sleep(40 * time.Second)
				return out, nil
			}
			out.Instances[0].InstanceIds = out.Instances[0].InstanceIds[:3]
			out.Errors = []ec2types.CreateFleetError{{ErrorCode: new("InsufficientInstanceCapacity"), LaunchTemplateAndOverrides: out.Instances[0].LaunchTemplateAndOverrides}}
			return out, nil
		}
		took := make([]time.Duration, 5) // by claim
		started := time.Now()
		var all sync.WaitGroup
		for i := range took {
			all.Go(func() {
				l.must(l.request(nodeClaim(fmt.Sprint(i))))
				took[i] = time.Since(started)
			})
		}
		all.Wait()
		quick := 0
		for _, d := range took {
			if d < 2*time.Second {
				quick++
			}
		}
		if quick != 3 || len(l.fleets) != 2 {
			t.Errorf("%d of 3 winners were notified at once, in %d requests: %v", quick, len(l.fleets), took)
		}
	})
}
