package interrupt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	visibility = 20 * time.Second // for which a message is ours
	longPoll   = 20 * time.Second
	shortPoll  = time.Second // of the receivers that help with a full queue
	perReceive = 10

	// A busy account fills the queue with messages about instances of others. Several receivers get through them, and
	// what they find out about foreign instances holds up neither them nor the actions on ours.
	mostReceivers = 8
	mostActions   = 100  // messages whose NodeClaims are searched for and deleted at a time
	mostDeleting  = 2000 // messages that wait for EC2 or for their deletion; SQS delivers others again
	mostRemovals  = 20   // calls of DeleteMessage at a time

	lookAgain      = time.Second   // for the claim of a message that came early
	leftForRemoval = 2 * lookAgain // before the message is not ours any more
	recent         = time.Minute   // a warning this young may be about an instance that EC2 does not show yet
	mostEarly      = 100           // messages that wait so at a time; SQS delivers others again

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
	Actor     *respond.Actor
	Instances finder
	Cluster   string
	Metrics   *metric.Set
	Now       func() time.Time

	running  sync.WaitGroup // everything beside the loop of Start
	acting   chan struct{}  // a slot per action
	removing chan struct{}  // a slot per call of DeleteMessage
	shared   sync.Once      // the warning about a queue that others should read (H05)

	mu        sync.Mutex
	held      map[string]time.Time // messages that came before their claim, by id (H03)
	early     int                  // how many of them wait for it now
	receivers int                  // beside the loop of Start
	deleting  int                  // messages that wait for EC2 or for their deletion
}

// Start reads the queue until the context ends. Nothing that goes wrong ends it.
func (q *Queue) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", "interruption", "queue", q.Name))
	q.acting, q.removing = make(chan struct{}, mostActions), make(chan struct{}, mostRemovals)
	defer q.running.Wait()
	url, pause := "", firstPause
	for ctx.Err() == nil {
		next, err := q.resolveOrReceive(ctx, url)
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

// resolveOrReceive finds the queue if its URL is not known, else reads once. It returns the URL, if that is still good.
func (q *Queue) resolveOrReceive(ctx context.Context, url string) (string, error) {
	if url == "" {
		out, err := q.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.Name})
		if err != nil {
			return "", q.explain("GetQueueUrl", err)
		}
		if out.QueueUrl == nil || *out.QueueUrl == "" {
			return "", errors.New("the response to GetQueueUrl has no URL")
		}
		return *out.QueueUrl, nil
	}
	received, err := q.receive(ctx, url, longPoll)
	if err != nil {
		if awserr.NotFound(err) {
			url = "" // it may come back under another URL
		}
		return url, q.explain("ReceiveMessage", err)
	}
	if received == perReceive {
		q.addReceivers(ctx, url)
	}
	return url, nil
}

// receive requests messages once, hands each to a handler of its own, and returns how many there were. It waits for a
// free handler, and for nothing that a handler does.
func (q *Queue) receive(ctx context.Context, url string, wait time.Duration) (int, error) {
	out, err := q.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &url,
		MaxNumberOfMessages:         perReceive,
		WaitTimeSeconds:             int32(wait / time.Second),
		VisibilityTimeout:           int32(visibility / time.Second),
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return 0, err
	}
	deadline := q.Now().Add(visibility)
	for _, m := range out.Messages {
		if !acquire(ctx, q.acting) {
			break
		}
		q.running.Go(func() { q.handleMessage(ctx, url, m, deadline) })
	}
	return len(out.Messages), nil
}

// addReceivers has a full queue read by several at a time. Those end when they find nothing, or fail: the loop of Start,
// which goes on, is the one that reports errors.
func (q *Queue) addReceivers(ctx context.Context, url string) {
	for q.beginIfFree(&q.receivers, mostReceivers-1) {
		q.running.Go(func() {
			defer q.endOne(&q.receivers)
			for ctx.Err() == nil {
				if n, err := q.receive(ctx, url, shortPoll); n == 0 || err != nil {
					return
				}
			}
		})
	}
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

// beginIfFree counts something that runs, unless as many as may already do.
func (q *Queue) beginIfFree(running *int, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if *running >= most {
		return false
	}
	*running++
	return true
}

func (q *Queue) endOne(running *int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*running--
}

// acquire takes a slot, unless the context ends before there is one.
func acquire(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
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
