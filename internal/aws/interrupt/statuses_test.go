package interrupt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/interruption"
)

func check(since time.Time) *ec2types.InstanceStatusSummary {
	return &ec2types.InstanceStatusSummary{Status: "impaired", Details: []ec2types.InstanceStatusDetails{{Name: "reachability", Status: "failed", ImpairedSince: &since}}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	old, fresh := start.Add(-3*time.Minute), start.Add(-time.Minute)
	codeOf := func(c ec2types.EventCode, text string) []ec2types.InstanceStatusEvent {
		return []ec2types.InstanceStatusEvent{{Code: c, Description: &text}}
	}
	for name, tc := range map[string]struct {
		in   []ec2types.InstanceStatus
		want []Finding
	}{
		"nothing":                        {},
		"a check that fails long enough": {[]ec2types.InstanceStatus{{InstanceId: new("i-1"), InstanceStatus: check(old)}}, []Finding{{"i-1", interruption.InstanceStatus}}},
		"exactly two minutes":            {[]ec2types.InstanceStatus{{InstanceId: new("i-1"), SystemStatus: check(start.Add(-120 * time.Second))}}, []Finding{{"i-1", interruption.SystemStatus}}},
		"a check that just failed":       {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), InstanceStatus: check(fresh)}}},
		"a failure without its time":     {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), InstanceStatus: &ec2types.InstanceStatusSummary{Status: "impaired", Details: []ec2types.InstanceStatusDetails{{Status: "failed"}}}}}},
		"a check that passes again":      {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), InstanceStatus: &ec2types.InstanceStatusSummary{Status: "ok", Details: check(old).Details}}}},
		"volumes do not count":           {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), AttachedEbsStatus: &ec2types.EbsStatusSummary{Status: "impaired"}}}},
		"a scheduled event":              {[]ec2types.InstanceStatus{{InstanceId: new("i-1"), Events: codeOf("instance-retirement", "soon")}}, []Finding{{"i-1", interruption.EventStatus}}},
		"one that was dealt with":        {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), Events: codeOf("instance-retirement", "[Completed] soon")}}},
		"an event of another kind":       {in: []ec2types.InstanceStatus{{InstanceId: new("i-1"), Events: codeOf("odd", "soon")}}},
		"a response without id":          {in: []ec2types.InstanceStatus{{InstanceStatus: check(old)}}},
		"two sweeps found it":            {[]ec2types.InstanceStatus{{InstanceId: new("i-2"), InstanceStatus: check(old), SystemStatus: check(old)}, {InstanceId: new("i-2"), SystemStatus: check(old)}}, []Finding{{"i-2", interruption.InstanceStatus}, {"i-2", interruption.SystemStatus}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Unhealthy(tc.in, start)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type statusFake struct {
	calls   int
	respond func(filter string, round int) (ec2types.InstanceStatus, error)
}

func (f *statusFake) DescribeInstanceStatus(_ context.Context, in *ec2.DescribeInstanceStatusInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceStatusOutput, error) {
	f.calls++
	status, err := f.respond(*in.Filters[0].Name, (f.calls+2)/3)
	if err != nil || status.InstanceId == nil {
		return &ec2.DescribeInstanceStatusOutput{}, err
	}
	return &ec2.DescribeInstanceStatusOutput{InstanceStatuses: []ec2types.InstanceStatus{status}}, nil
}

func poll(t *testing.T, f *statusFake, c *cloudtest.Cluster, length time.Duration) (lines []string) {
	t.Helper()
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx, cancel := context.WithTimeout(log.IntoContext(t.Context(), logger), length)
	defer cancel()
	a := actorOf(c)
	a.Now = time.Now
	if err := (&Statuses{EC2: f, Actor: a, Metrics: a.Metrics, Now: time.Now}).Start(ctx); err != nil {
		t.Error(err)
	}
	return lines
}

func TestAnEpisodeIsCountedOnceAndActedOnOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("i-1")
		f := &statusFake{respond: func(filter string, round int) (ec2types.InstanceStatus, error) {
			if filter != "system-status.status" || round == 4 { // it recovers for one round
				return ec2types.InstanceStatus{}, nil
			}
			return ec2types.InstanceStatus{InstanceId: new("i-1"), SystemStatus: check(time.Now().Add(-time.Hour))}, nil
		}}
		poll(t, f, c, 5*time.Minute+time.Second)
		if diff := cmp.Diff(map[string]float64{"SystemStatus": 2, "InstanceStatus": 0, "EventStatus": 0}, c.Counted(t, "karpenter_interruption_instance_status_unhealthy_total")); diff != "" {
			t.Error(diff)
		}
		if c.Count("delete") != 1 || c.Count("patch") != 1 {
			t.Error(c.Did())
		}
	})
}

func TestInstancesOfOthersAreNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		f := &statusFake{respond: func(string, int) (ec2types.InstanceStatus, error) {
			return ec2types.InstanceStatus{InstanceId: new("i-other"), SystemStatus: check(time.Now().Add(-time.Hour))}, nil
		}}
		poll(t, f, c, 3*time.Minute)
		none := map[string]float64{"SystemStatus": 0, "InstanceStatus": 0, "EventStatus": 0}
		if diff := cmp.Diff(none, c.Counted(t, "karpenter_interruption_instance_status_unhealthy_total")); diff != "" || len(c.Did()) != 0 {
			t.Error(diff, c.Did())
		}
	})
}

func TestFM_H14_NotPermittedIsOneLineAndTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &statusFake{respond: func(string, int) (ec2types.InstanceStatus, error) {
			return ec2types.InstanceStatus{}, code("UnauthorizedOperation")
		}}
		lines := poll(t, f, newCluster(), time.Hour)
		if f.calls != 1 || count(lines, "ec2:DescribeInstanceStatus") != 1 || len(lines) != 1 {
			t.Errorf("%d calls, %v", f.calls, lines)
		}
	})
}

func TestFM_E08_AThrottleDoesNotEndThePolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &statusFake{}
		f.respond = func(string, int) (ec2types.InstanceStatus, error) {
			if f.calls <= 5 {
				return ec2types.InstanceStatus{}, code("RequestLimitExceeded")
			}
			return ec2types.InstanceStatus{}, nil
		}
		poll(t, f, newCluster(), 10*time.Minute+time.Second)
		if f.calls < 5+3*4 {
			t.Errorf("only %d calls", f.calls)
		}
	})
}
