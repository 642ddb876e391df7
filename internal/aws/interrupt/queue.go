package interrupt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	lookAgain = time.Second              // for the claim of a message that came early
	lookFor   = visibility - 2*lookAgain // as long as the message is surely ours
	recent    = time.Minute              // a warning this young may be about an instance that EC2 does not show yet
	mostEarly = 100                      // messages that wait so at a time; the others just come again

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

	mu      sync.Mutex
	held    map[string]time.Time // messages that came before their claim, by id (H03)
	early   int                  // how many of them wait for it now
	waiting sync.WaitGroup       // for those
	shared  sync.Once            // the warning about a queue that others should read (H05)
}

// Start reads the queue until the context ends. Nothing that goes wrong ends it.
func (q *Queue) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", "interruption", "queue", q.Name))
	defer q.waiting.Wait()
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
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("message-id", text(m.MessageId)))
	bounded, cancel := context.WithTimeout(ctx, visibility)
	defer cancel()
	parsed, err := Parse(text(m.Body))
	if err != nil {
		log.FromContext(ctx).Error(err, "ignoring an interruption message that cannot be read")
		q.Metrics.InterruptionReceived.WithLabelValues(malformed).Inc()
		q.remove(bounded, url, m)
		return
	}
	q.Metrics.InterruptionReceived.WithLabelValues(string(parsed.Kind)).Inc()
	if at := eventTime(parsed, m); !at.IsZero() {
		q.Metrics.InterruptionQueueDuration.WithLabelValues().Observe(max(0, q.Now().Sub(at).Seconds()))
	}
	unknown, err := q.act(bounded, parsed.Kind, parsed.Instances)
	if err != nil {
		log.FromContext(ctx).Error(err, "handling an interruption message; it comes again")
		return
	}
	unknown = slices.DeleteFunc(unknown, func(id string) bool { return !q.expected(bounded, parsed, id) })
	if len(unknown) > 0 && q.hold(text(m.MessageId)) {
		q.wait(ctx, url, m, parsed.Kind, unknown)
		return
	}
	q.remove(bounded, url, m)
}

// act does what a kind asks for, and returns the instances that have no claim.
func (q *Queue) act(ctx context.Context, kind Kind, instances []string) (unknown []string, err error) {
	var failures []error
	for _, id := range instances {
		known, err := q.Actor.Act(ctx, kind, id)
		switch {
		case err != nil:
			failures = append(failures, err)
		case !known:
			unknown = append(unknown, id)
		}
	}
	return unknown, errors.Join(failures...)
}

func (q *Queue) remove(ctx context.Context, url string, m sqstypes.Message) {
	if _, err := q.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
		log.FromContext(ctx).Error(err, "deleting an interruption message; it comes again")
		return
	}
	q.Metrics.InterruptionDeleted.WithLabelValues().Inc()
}

// wait looks for the claims of a message that came before them, beside the loop, while the message is
// ours. Two minutes are short: its next delivery would lose too many seconds (H03). If the claims do not
// come, the message does, once more.
func (q *Queue) wait(ctx context.Context, url string, m sqstypes.Message, kind Kind, instances []string) {
	if !q.enter() {
		return
	}
	q.waiting.Go(func() {
		defer q.leave()
		ctx, cancel := context.WithTimeout(ctx, lookFor)
		defer cancel()
		for len(instances) > 0 {
			sleep(ctx, lookAgain)
			if ctx.Err() != nil {
				return
			}
			var err error
			if instances, err = q.act(ctx, kind, instances); err != nil {
				log.FromContext(ctx).Error(err, "handling an interruption message; it comes again")
				return
			}
		}
		q.remove(ctx, url, m)
	})
}

func (q *Queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.early >= mostEarly {
		return false
	}
	q.early++
	return true
}

func (q *Queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.early--
}

// expected reports whether an instance without NodeClaim may still get one: it is ours and lives, or we
// could not find that out. Instances of others are no business of ours: the rules of EventBridge match
// the whole account. EC2 may warn of an instance before it shows it.
func (q *Queue) expected(ctx context.Context, m Message, id string) bool {
	instance, err := q.Instances.Find(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		warning := m.Kind == SpotInterrupted || m.Kind == ReservationInterrupted
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

// hold reports whether a message is to come once more: the claim may be written in the meantime (H03).
func (q *Queue) hold(message string) bool {
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
