package provider

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/interrupt"
)

// Status checks need no queue: broken machines are ended at once, announced maintenance drains (7.2).
func TestInstanceStatuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		check   string
		passing time.Duration
		want    []string
	}{
		"a failing instance check":          {`{"instance":"impaired"}`, 3 * time.Minute, []string{"deadline", "delete"}},
		"a failing host":                    {`{"system":"impaired"}`, 3 * time.Minute, []string{"deadline", "delete"}},
		"a check that fails for a minute":   {`{"instance":"impaired"}`, time.Minute, nil},
		"a failing volume":                  {`{"attachedEBS":"impaired"}`, time.Hour, nil},
		"a retirement that is announced":    {`{"events":[{"code":"instance-retirement"}]}`, 0, []string{"delete"}},
		"an announcement of something else": {`{"events":[{"code":"system-power-maintenance"}]}`, 0, nil},
		"a retirement that was completed":   {`{"events":[{"code":"instance-retirement","description":"[Completed] done"}]}`, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			id := l.launchInstances(1, onDemand, ownedTags())[0]
			l.advanceClock(10 * time.Second)
			l.post("status-check", `{"instance":"`+id+`","check":`+tc.check+`}`)
			l.advanceClock(tc.passing)
			r := registryOf(id)
			swept := l.afterCalls("ec2:DescribeInstanceStatus", 3)
			s := &interrupt.Statuses{EC2: ec2.NewFromConfig(l.sdk), Actor: l.newActor(r), Metrics: l.metrics, Now: l.currentTime}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = s.Start(ctx) })
			l.wait("three sweeps", swept)
			if len(tc.want) > 0 {
				l.waitUntil("the deletion", func() bool { return r.count("event TerminatingOnInterruption") > 0 })
			}
			cancel()
			running.Wait()
			var got []string
			for _, did := range r.sortedRecord() {
				if verb, _, _ := strings.Cut(did, " "); verb != "event" {
					got = append(got, verb)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// H14: without the permission the status checks end with one line.
func TestFM_H14_StatusesMayNotBeRead(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.denyAction("ec2:DescribeInstanceStatus")
	said := &lines{}
	s := &interrupt.Statuses{EC2: ec2.NewFromConfig(l.sdk), Actor: l.newActor(registryOf()), Metrics: l.metrics, Now: l.currentTime}
	if err := s.Start(log.IntoContext(t.Context(), said.newLogger())); err != nil {
		t.Errorf("start: %v", err)
	}
	if n := said.count("ec2:DescribeInstanceStatus"); n != 1 {
		t.Errorf("%d lines, want one that names the action: %q", n, said.list)
	}
}
