package interrupt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// pollEvery is how often the states of instances are read from EC2.
const pollEvery = time.Minute

const handlers = 10 // findings acted upon at a time

type statusAPI interface {
	DescribeInstanceStatus(context.Context, *ec2.DescribeInstanceStatusInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceStatusOutput, error)
}

// Statuses finds unhealthy instances by calls of EC2, without a queue. Its exported fields are set once.
type Statuses struct {
	EC2     statusAPI
	Actor   *respond.Actor
	Metrics *metric.Set
	Now     func() time.Time

	episodes map[Finding]bool // findings of the last round that belong to us
}

// Start polls until the context ends, or until EC2 says that it is not permitted (H14).
func (s *Statuses) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", "interruption.instancestatus"))
	for ctx.Err() == nil {
		err := s.pollOnce(ctx)
		if awserr.Unauthorized(err) {
			log.FromContext(ctx).Error(err, "instance status checks are off until the next start: give the role of the controller ec2:DescribeInstanceStatus and restart it")
			return nil
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "polling the status of instances")
		}
		sleep(ctx, pollEvery)
	}
	return nil
}

func (s *Statuses) pollOnce(ctx context.Context) error {
	statuses, err := s.describeUnhealthy(ctx)
	if err != nil {
		return err
	}
	findings := Unhealthy(statuses, s.Now())
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots, ours := make(chan struct{}, handlers), map[Finding]bool{}
	for _, f := range findings {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			known, err := s.Actor.Act(ctx, notice(f.Kind, f.Instance))
			if err != nil {
				log.FromContext(ctx).Error(err, "acting on an unhealthy instance; the next round tries again", "instance-id", f.Instance)
			}
			if known {
				mu.Lock()
				defer mu.Unlock()
				ours[f] = true
			}
		})
	}
	wait.Wait()
	// any order: they are only counted
	for f := range ours {
		if !s.episodes[f] {
			s.Metrics.InstanceStatusUnhealthy.WithLabelValues(f.Category()).Inc()
		}
	}
	s.episodes = ours
	return nil
}

// describeUnhealthy requests everything that may be unhealthy, in three passes: filters of one call are joined by AND.
func (s *Statuses) describeUnhealthy(ctx context.Context) ([]ec2types.InstanceStatus, error) {
	impaired := []string{string(ec2types.SummaryStatusImpaired)}
	var all []ec2types.InstanceStatus
	for _, filter := range []ec2types.Filter{
		{Name: new("instance-status.status"), Values: impaired},
		{Name: new("system-status.status"), Values: impaired},
		{Name: new("event.code"), Values: eventCodes()},
	} {
		input := &ec2.DescribeInstanceStatusInput{Filters: []ec2types.Filter{filter}}
		for {
			page, err := s.EC2.DescribeInstanceStatus(ctx, input)
			if err != nil {
				return nil, fmt.Errorf("DescribeInstanceStatus: %w", err)
			}
			all = append(all, page.InstanceStatuses...)
			if text(page.NextToken) == "" {
				break
			}
			input.NextToken = page.NextToken
		}
	}
	return all, nil
}
