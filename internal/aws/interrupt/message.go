package interrupt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/interruption"
)

// delivery is a message as it was received, without its body: many wait at a time.
type delivery struct {
	Message

	url, id  string
	handle   *string   // of the receipt
	deadline time.Time // until when the message is surely ours
}

// handleMessage handles one message and deletes it, unless it has to be delivered again. It gives its slot back once the claims of the
// message are dealt with.
func (q *Queue) handleMessage(ctx context.Context, url string, m sqstypes.Message, deadline time.Time) {
	d := delivery{url: url, id: text(m.MessageId), handle: m.ReceiptHandle, deadline: deadline}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("message-id", d.id))
	bounded, cancel := context.WithTimeout(ctx, deadline.Sub(q.Now()))
	defer cancel()
	unknown, again := q.perform(bounded, &d, m)
	<-q.acting
	if again || !q.beginIfFree(&q.deleting, mostDeleting) {
		return
	}
	defer q.endOne(&q.deleting)
	unknown = slices.DeleteFunc(unknown, func(id string) bool { return !q.mayStillGetClaim(bounded, d.Message, id) })
	if len(unknown) > 0 && q.retryUnknown(d.id) {
		q.wait(ctx, d, unknown)
		return
	}
	q.remove(bounded, d)
}

// perform reads a message and does what it requests. It returns the instances that have no claim, and whether the
// message has to be delivered again.
func (q *Queue) perform(ctx context.Context, d *delivery, m sqstypes.Message) (unknown []string, again bool) {
	parsed, err := Parse(text(m.Body))
	if err != nil {
		log.FromContext(ctx).Error(err, "ignoring an interruption message that cannot be read")
		q.Metrics.InterruptionReceived.WithLabelValues(malformed).Inc()
		return nil, false
	}
	d.Message = parsed
	q.Metrics.InterruptionReceived.WithLabelValues(string(parsed.Kind)).Inc()
	if at := eventTime(parsed, m); !at.IsZero() {
		q.Metrics.InterruptionQueueDuration.WithLabelValues().Observe(max(0, q.Now().Sub(at).Seconds()))
	}
	unknown, err = q.performKind(ctx, parsed.Kind, parsed.Instances)
	if err != nil {
		log.FromContext(ctx).Error(err, "handling an interruption message; SQS delivers it again")
		return nil, true
	}
	return unknown, false
}

// performKind does what a kind requests, and returns the instances that have no claim.
func (q *Queue) performKind(ctx context.Context, kind interruption.Kind, instances []string) (unknown []string, err error) {
	var failures []error
	for _, id := range instances {
		known, err := q.Actor.Act(ctx, notice(kind, id))
		switch {
		case err != nil:
			failures = append(failures, err)
		case !known:
			unknown = append(unknown, id)
		}
	}
	return unknown, errors.Join(failures...)
}

// remove deletes a message, so that SQS does not deliver it again.
func (q *Queue) remove(ctx context.Context, d delivery) {
	if !acquire(ctx, q.removing) {
		return
	}
	defer func() { <-q.removing }()
	if _, err := q.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.url, ReceiptHandle: d.handle}); err != nil {
		log.FromContext(ctx).Error(err, "deleting an interruption message; SQS delivers it again")
		return
	}
	q.Metrics.InterruptionDeleted.WithLabelValues().Inc()
}

// wait looks for the claims of a message that came before them, while the message is ours. Two minutes are short: its
// next delivery would lose too many seconds (H03). If the claims do not come, the message does, once more.
func (q *Queue) wait(ctx context.Context, d delivery, instances []string) {
	if !q.beginIfFree(&q.early, mostEarly) {
		return
	}
	q.running.Go(func() {
		defer q.endOne(&q.early)
		ctx, cancel := context.WithTimeout(ctx, d.deadline.Sub(q.Now())-leftForRemoval)
		defer cancel()
		for len(instances) > 0 {
			sleep(ctx, lookAgain)
			if ctx.Err() != nil {
				return
			}
			var err error
			if instances, err = q.performKind(ctx, d.Kind, instances); err != nil {
				log.FromContext(ctx).Error(err, "handling an interruption message; SQS delivers it again")
				return
			}
		}
		q.remove(ctx, d)
	})
}

// mayStillGetClaim reports whether an instance without NodeClaim may still get one: it is ours and lives, or we
// could not find that out. Instances of others are no business of ours: the rules of EventBridge match
// the whole account. EC2 may warn of an instance before it shows it.
func (q *Queue) mayStillGetClaim(ctx context.Context, m Message, id string) bool {
	instance, err := q.Instances.Find(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		warning := m.Kind == interruption.SpotInterrupted || m.Kind == interruption.ReservationInterrupted
		return warning && !m.Time.IsZero() && q.Now().Sub(m.Time).Abs() < recent
	}
	if err != nil {
		return true
	}
	if owner := instance.Tags[inventory.TagCluster]; owner != "" && owner != q.Cluster && instance.Owned(owner) {
		q.shared.Do(func() {
			log.FromContext(ctx).Error(nil, "the interruption queue brings messages about instances of another cluster: if that cluster reads the same queue, give each its own, since a message that one reads the other never sees",
				"instance-id", id, "other-cluster", owner)
		})
		return false
	}
	return instance.Owned(q.Cluster) && !instance.Terminating()
}

// retryUnknown reports whether a message is to come once more: the claim may be written in the meantime (H03).
func (q *Queue) retryUnknown(message string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held == nil {
		q.held = map[string]time.Time{}
	}
	now := q.Now()
	maps.DeleteFunc(q.held, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	if _, before := q.held[message]; before {
		return false
	}
	q.held[message] = now
	return true
}

// eventTime is when AWS saw the event, or else when the message was sent.
func eventTime(parsed Message, m sqstypes.Message) time.Time {
	if !parsed.Time.IsZero() {
		return parsed.Time
	}
	if ms, err := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}
