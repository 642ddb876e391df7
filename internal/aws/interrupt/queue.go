package interrupt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	visibility = 20 * time.Second // for which a message is ours
	longPoll   = 20 * time.Second
	perReceive = 10

	firstPause = 5 * time.Second // after an error; doubles
	lastPause  = time.Minute
)

// queueAPI is the part of SQS that is used.
type queueAPI interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
}

type finder interface {
	Find(ctx context.Context, id string) (inventory.Instance, error)
}

// Queue reads the interruption queue. Its exported fields are set once.
type Queue struct {
	Name      string
	SQS       queueAPI
	Actor     *Actor
	Instances finder
	Cluster   string
	Metrics   *metric.Set
	Now       func() time.Time

	mu     sync.Mutex
	held   map[string]time.Time // messages that came before their claim, by id (H03)
	shared sync.Once            // the warning about a queue that others should read (H05)
}

// Start reads the queue until the context ends. Nothing that goes wrong ends it.
func (q *Queue) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", "interruption", "queue", q.Name))
	url, pause := "", firstPause
	for ctx.Err() == nil {
		next, err := q.step(ctx, url)
		if url == "" && next != "" {
			log.FromContext(ctx).Info("watching interruption queue")
		}
		url = next
		if err == nil || ctx.Err() != nil {
			pause = firstPause
			continue
		}
		log.FromContext(ctx).Error(err, "reading the interruption queue", "retry-after", pause)
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
	return nil
}

// step finds the queue if its URL is not known, else reads once. It returns the URL, if that is still good.
func (q *Queue) step(ctx context.Context, url string) (string, error) {
	if url == "" {
		out, err := q.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.Name})
		if err != nil {
			return "", q.explain("GetQueueUrl", err)
		}
		if out.QueueUrl == nil || *out.QueueUrl == "" {
			return "", errors.New("GetQueueUrl answered without a URL")
		}
		return *out.QueueUrl, nil
	}
	out, err := q.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &url,
		MaxNumberOfMessages:         perReceive,
		WaitTimeSeconds:             int32(longPoll / time.Second),
		VisibilityTimeout:           int32(visibility / time.Second),
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		if awserr.NotFound(err) {
			url = "" // it may come back under another URL
		}
		return url, q.explain("ReceiveMessage", err)
	}
	var wait sync.WaitGroup
	for _, m := range out.Messages { // at most ten, each with a handler of its own
		wait.Go(func() { q.take(ctx, url, m) })
	}
	wait.Wait()
	return url, nil
}

// explain says what a person has to do about an error.
func (q *Queue) explain(op string, err error) error {
	switch {
	case awserr.NotFound(err):
		return fmt.Errorf("%s: there is no queue %q in this account and region: create it, or clear the setting interruption-queue: %w", op, q.Name, err)
	case awserr.Unauthorized(err):
		return fmt.Errorf("%s: the role of the controller may not read queue %q: it needs sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage: %w", op, q.Name, err)
	default:
		return fmt.Errorf("%s of queue %q: %w", op, q.Name, err)
	}
}

// take handles one message and deletes it, unless it has to come again.
func (q *Queue) take(ctx context.Context, url string, m sqstypes.Message) {
	ctx, cancel := context.WithTimeout(ctx, visibility)
	defer cancel()
	logger := log.FromContext(ctx).WithValues("message-id", text(m.MessageId))
	ctx = log.IntoContext(ctx, logger)
	done, err := q.handle(ctx, m)
	if err != nil {
		logger.Error(err, "handling an interruption message; it comes again")
	}
	if !done || err != nil {
		return
	}
	if _, err := q.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
		logger.Error(err, "deleting an interruption message; it comes again")
		return
	}
	q.Metrics.InterruptionDeleted.WithLabelValues().Inc()
}

// handle does what a message asks for, and reports whether the message is done with.
func (q *Queue) handle(ctx context.Context, m sqstypes.Message) (done bool, err error) {
	parsed, err := Parse(text(m.Body))
	if err != nil {
		log.FromContext(ctx).Error(err, "ignoring an interruption message that cannot be read")
		q.Metrics.InterruptionReceived.WithLabelValues(malformed).Inc()
		return true, nil
	}
	q.Metrics.InterruptionReceived.WithLabelValues(string(parsed.Kind)).Inc()
	if at := eventTime(parsed, m); !at.IsZero() {
		q.Metrics.InterruptionQueueDuration.WithLabelValues().Observe(max(0, q.Now().Sub(at).Seconds()))
	}
	done = true
	var failures []error
	for _, instance := range parsed.Instances {
		known, err := q.Actor.Act(ctx, parsed.Kind, instance)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if !known && q.expected(ctx, instance) && q.hold(text(m.MessageId)) {
			done = false
		}
	}
	return done, errors.Join(failures...)
}

// expected reports whether an instance without NodeClaim may still get one: it is ours and lives, or we
// could not find that out. Instances of others are no business of ours: the rules of EventBridge match
// the whole account.
func (q *Queue) expected(ctx context.Context, id string) bool {
	instance, err := q.Instances.Find(ctx, id)
	if err != nil {
		return !cloud.Is(err, cloud.NotFound)
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

// hold reports whether a message is to come once more: the claim may be written in the meantime (H03).
func (q *Queue) hold(message string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held == nil {
		q.held = map[string]time.Time{}
	}
	now := q.Now()
	maps.DeleteFunc(q.held, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	if at, before := q.held[message]; before {
		return now.Sub(at) < visibility/2 // a second instance of the same message
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

// sleep waits, but not longer than the context.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
