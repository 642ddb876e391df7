package awsemu

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// queueClient is a client and the URL of the fixture's queue.
type queueClient struct {
	*cloud
	*sqs.Client
	queue *string
}

func startQueue(t *testing.T) *queueClient {
	t.Helper()
	c := startCloud(t)
	client := sqs.NewFromConfig(c.cfg)
	out, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})
	check(t, err)
	return &queueClient{cloud: c, Client: client, queue: out.QueueUrl}
}

// receive sends the request of the controller.
func (q *queueClient) receive(ctx context.Context, wait int32) ([]types.Message, error) {
	out, err := q.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: q.queue, MaxNumberOfMessages: 10, VisibilityTimeout: 20, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp}, MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func (q *queueClient) mustReceive(t *testing.T, want int) []types.Message {
	t.Helper()
	messages, err := q.receive(t.Context(), 0)
	check(t, err)
	if len(messages) != want {
		t.Fatalf("received %d messages, want %d", len(messages), want)
	}
	return messages
}

func (q *queueClient) delete(t *testing.T, handle *string) {
	t.Helper()
	_, err := q.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: q.queue, ReceiptHandle: handle})
	check(t, err)
}

func (q *queueClient) post(t *testing.T, body string) {
	t.Helper()
	_, err := q.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.queue, MessageBody: &body})
	check(t, err)
}

func TestMessageIsReceivedAndDeleted(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	if want := q.url + "/111122223333/Karpenter-sandbox"; *q.queue != want {
		t.Errorf("URL %q, want %q", *q.queue, want)
	}
	q.mustReceive(t, 0)
	q.post(t, "hello")
	m := q.mustReceive(t, 1)[0]
	sum := md5.Sum([]byte("hello"))
	if *m.Body != "hello" || *m.MD5OfBody != hex.EncodeToString(sum[:]) || m.Attributes["SentTimestamp"] != fmt.Sprint(q.clock.Now().UnixMilli()) || len(m.Attributes) != 1 {
		t.Errorf("message %+v", m)
	}
	q.mustReceive(t, 0)
	q.delete(t, m.ReceiptHandle)
	q.clock.Advance(time.Minute)
	q.mustReceive(t, 0)
	q.delete(t, m.ReceiptHandle) // again: accepted
}

func TestMessageComesBackAfterItsVisibilityTimeout(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	q.post(t, "hello")
	first := q.mustReceive(t, 1)[0]
	q.clock.Advance(19 * time.Second)
	q.mustReceive(t, 0)
	q.clock.Advance(time.Second)
	second := q.mustReceive(t, 1)[0]
	if *first.MessageId != *second.MessageId || *first.ReceiptHandle == *second.ReceiptHandle {
		t.Errorf("ids %s, %s; handles %s, %s", *first.MessageId, *second.MessageId, *first.ReceiptHandle, *second.ReceiptHandle)
	}
	q.delete(t, first.ReceiptHandle) // of an old receive: accepted, and without effect
	q.clock.Advance(20 * time.Second)
	third := q.mustReceive(t, 1)[0]
	q.delete(t, third.ReceiptHandle)
	q.clock.Advance(20 * time.Second)
	q.mustReceive(t, 0)
}

func TestMessagesAreKeptFor300Seconds(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	q.post(t, "hello")
	q.clock.Advance(299 * time.Second)
	q.mustReceive(t, 1)
	q.clock.Advance(time.Second)
	q.mustReceive(t, 0)
}

func TestAtLeastOnceMeansSometimesTwice(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	q.set(t, http.MethodPost, "message?copies=2", "twice")
	messages := q.mustReceive(t, 2)
	if *messages[0].MessageId != *messages[1].MessageId || *messages[0].ReceiptHandle == *messages[1].ReceiptHandle {
		t.Errorf("copies %+v", messages)
	}
	q.delete(t, messages[0].ReceiptHandle)
	q.delete(t, messages[1].ReceiptHandle)
	q.set(t, http.MethodPut, "queues", `{"Karpenter-sandbox":{"duplicates":1}}`)
	q.post(t, "always twice")
	q.mustReceive(t, 2)
}

func TestRawBodiesAreInjected(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	for _, body := range []string{`{"version":`, "", `{"version":"9","detail-type":"No Such Thing"}`, "\x00\x01"} {
		q.set(t, http.MethodPost, "message", body)
		m := q.mustReceive(t, 1)[0]
		if aws.ToString(m.Body) != body {
			t.Errorf("body %q, want %q", aws.ToString(m.Body), body)
		}
		q.delete(t, m.ReceiptHandle)
	}
	for path, want := range map[string]int{"message?queue=none": 400, "message?copies=0": 400, "message?copies=x": 400, "message?copies=11": 400} {
		if status := q.callControlAPI(t, http.MethodPost, path, "x", nil); status != want {
			t.Errorf("%s = %d, want %d", path, status, want)
		}
	}
}

// startLongPoll starts a long poll of 20 s and returns when the emulator works on it.
func (q *queueClient) startLongPoll(t *testing.T) (done <-chan []types.Message, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan []types.Message, 1)
	before := len(q.Calls(wire.SQS, "ReceiveMessage"))
	go func() {
		messages, err := q.receive(ctx, 20)
		if err != nil && ctx.Err() == nil {
			t.Errorf("receive: %v", err)
		}
		out <- messages
	}()
	waitUntil(t, func() bool { return len(q.Calls(wire.SQS, "ReceiveMessage")) > before })
	return out, cancel
}

// patience is how long anything may take before a test gives up on it; a busy machine needs seconds.
const patience = 3 * time.Minute

// waitUntil polls for what happens on another goroutine.
func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen within %s", patience)
		}
		time.Sleep(time.Millisecond)
	}
}

func wantOne(t *testing.T, done <-chan []types.Message, body string) {
	t.Helper()
	select {
	case messages := <-done:
		if len(messages) != 1 || *messages[0].Body != body {
			t.Errorf("received %+v", messages)
		}
	case <-time.After(patience):
		t.Error("the long poll was not woken")
	}
}

func TestLongPollWakes(t *testing.T) {
	t.Parallel()
	t.Run("by a message that is sent", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		done, cancel := q.startLongPoll(t)
		defer cancel()
		q.post(t, "wake")
		wantOne(t, done, "wake")
	})
	t.Run("by an event", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		done, cancel := q.startLongPoll(t)
		defer cancel()
		q.runLocked(func(now time.Time) { q.publishEvent(now, EventRebalance, nil, map[string]string{"instance-id": "i-1"}) })
		select {
		case messages := <-done:
			var body struct {
				Version string            `json:"version"`
				Source  string            `json:"source"`
				Detail  map[string]string `json:"detail"`
			}
			check(t, json.Unmarshal([]byte(*messages[0].Body), &body))
			if body.Version != "0" || body.Source != "aws.ec2" || body.Detail["instance-id"] != "i-1" {
				t.Errorf("body %s", *messages[0].Body)
			}
		case <-time.After(patience):
			t.Error("the long poll was not woken")
		}
	})
	t.Run("by the clock, when a hidden message comes back", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		q.post(t, "again")
		q.mustReceive(t, 1)
		done, cancel := q.startLongPoll(t)
		defer cancel()
		q.clock.Advance(20 * time.Second)
		wantOne(t, done, "again")
	})
	t.Run("by time that runs fast", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		q.post(t, "again")
		q.mustReceive(t, 1)
		q.clock.Set(q.clock.Now(), 1000)
		done, cancel := q.startLongPoll(t)
		defer cancel()
		wantOne(t, done, "again")
	})
	t.Run("ends with its client", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		done, cancel := q.startLongPoll(t)
		cancel()
		<-done
		waitUntil(t, func() bool { return q.Calls(wire.SQS, "ReceiveMessage")[0].Done })
	})
	t.Run("ends when its queue is deleted", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		errs := make(chan error, 1)
		go func() {
			_, err := q.receive(t.Context(), 20)
			errs <- err
		}()
		waitUntil(t, func() bool { return len(q.Calls(wire.SQS, "ReceiveMessage")) > 0 })
		q.set(t, http.MethodPut, "queues", `{"Karpenter-sandbox":null}`)
		wantCode(t, <-errs, "AWS.SimpleQueueService.NonExistentQueue", 400)
	})
	t.Run("ends after its time", func(t *testing.T) {
		t.Parallel()
		q := startQueue(t)
		messages, err := q.receive(t.Context(), 1)
		check(t, err)
		if len(messages) != 0 {
			t.Errorf("received %+v", messages)
		}
	})
}

func TestQueueLife(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	ctx, name := t.Context(), aws.String("karpenter-other")
	_, err := q.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: name})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue", 400)
	created, err := q.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: name, Attributes: map[string]string{"MessageRetentionPeriod": "300", "Policy": "{}"}})
	check(t, err)
	again, err := q.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: name, Attributes: map[string]string{"MessageRetentionPeriod": "300"}})
	check(t, err)
	if *created.QueueUrl != *again.QueueUrl {
		t.Errorf("URLs %q and %q", *created.QueueUrl, *again.QueueUrl)
	}
	_, err = q.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: created.QueueUrl, Attributes: map[string]string{"VisibilityTimeout": "7"}})
	check(t, err)
	for range 3 {
		_, err = q.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: created.QueueUrl, MessageBody: aws.String("x")})
		check(t, err)
	}
	_, err = q.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: created.QueueUrl, MessageBody: aws.String("later"), DelaySeconds: 60})
	check(t, err)
	got, err := q.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: created.QueueUrl, MaxNumberOfMessages: 2})
	check(t, err)
	if len(got.Messages) != 2 {
		t.Fatalf("received %d", len(got.Messages))
	}
	out, err := q.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: created.QueueUrl, AttributeNames: []types.QueueAttributeName{"All"}})
	check(t, err)
	for attribute, want := range map[string]string{
		"QueueArn": "arn:aws:sqs:eu-west-1:111122223333:karpenter-other", "VisibilityTimeout": "7", "MessageRetentionPeriod": "300", "Policy": "{}",
		"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "2", "ApproximateNumberOfMessagesDelayed": "1",
	} {
		if out.Attributes[attribute] != want {
			t.Errorf("%s = %q, want %q", attribute, out.Attributes[attribute], want)
		}
	}
	one, err := q.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: created.QueueUrl, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	check(t, err)
	if len(one.Attributes) != 1 {
		t.Errorf("attributes %v", one.Attributes)
	}
	batch, err := q.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: created.QueueUrl, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: got.Messages[0].ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: aws.String("junk")},
	}})
	check(t, err)
	if len(batch.Successful) != 1 || len(batch.Failed) != 1 || *batch.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Errorf("batch %+v", batch)
	}
	_, err = q.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: created.QueueUrl})
	check(t, err)
	var names []string
	pager := sqs.NewListQueuesPaginator(q.Client, &sqs.ListQueuesInput{MaxResults: aws.Int32(1)})
	for pager.HasMorePages() {
		page, err := pager.NextPage(ctx)
		check(t, err)
		names = append(names, page.QueueUrls...)
	}
	if len(names) != 2 {
		t.Errorf("queues %v", names)
	}
	_, err = q.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: created.QueueUrl})
	check(t, err)
	_, err = q.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: created.QueueUrl})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue", 400)
}

func TestSQSErrors(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	ctx := t.Context()
	receive := func(in sqs.ReceiveMessageInput) error {
		in.QueueUrl = q.queue
		_, err := q.ReceiveMessage(ctx, &in)
		return err
	}
	create := func(name string, attributes map[string]string) error {
		_, err := q.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	batch := func(ids ...string) error {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: q.queue, Entries: []types.DeleteMessageBatchRequestEntry{}}
		for _, id := range ids {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: aws.String("h")})
		}
		_, err := q.DeleteMessageBatch(ctx, in)
		return err
	}
	_, handleErr := q.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: q.queue, ReceiptHandle: aws.String("junk")})
	_, emptyErr := q.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: q.queue, MessageBody: aws.String("")})
	_, longErr := q.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: q.queue, MessageBody: aws.String(strings.Repeat("x", 1<<20+1))})
	_, attributeErr := q.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: q.queue, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
	_, ownerErr := q.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox"), QueueOwnerAWSAccountId: aws.String("999999999999")})
	_, accountErr := q.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: aws.String(q.url + "/999999999999/Karpenter-sandbox")})
	for name, tc := range map[string]struct {
		err  error
		code string
	}{
		"a handle that is none":      {handleErr, "ReceiptHandleIsInvalid"},
		"no body":                    {emptyErr, "MissingParameter"},
		"too long a body":            {longErr, "InvalidParameterValue"},
		"unknown attribute":          {attributeErr, "InvalidAttributeName"},
		"queue of another account":   {ownerErr, "AWS.SimpleQueueService.NonExistentQueue"},
		"URL of another account":     {accountErr, "AWS.SimpleQueueService.NonExistentQueue"},
		"eleven messages":            {receive(sqs.ReceiveMessageInput{MaxNumberOfMessages: 11}), "InvalidParameterValue"},
		"21 seconds":                 {receive(sqs.ReceiveMessageInput{WaitTimeSeconds: 21}), "InvalidParameterValue"},
		"visibility of a day":        {receive(sqs.ReceiveMessageInput{VisibilityTimeout: 86400}), "InvalidParameterValue"},
		"a name with a space":        {create("a b", nil), "InvalidParameterValue"},
		"other attributes":           {create("Karpenter-sandbox", map[string]string{"VisibilityTimeout": "1"}), "QueueAlreadyExists"},
		"attribute that is none":     {create("x", map[string]string{"Nonsense": "1"}), "InvalidAttributeName"},
		"attribute with a bad value": {create("x", map[string]string{"VisibilityTimeout": "-1"}), "InvalidAttributeValue"},
		"empty batch":                {batch(), "AWS.SimpleQueueService.EmptyBatchRequest"},
		"batch with an id twice":     {batch("a", "a"), "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"},
		"batch with too many":        {batch("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, tc.err, tc.code, 400)
		})
	}
}

func TestQueuesControl(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	q.post(t, "hello")
	var queues map[string]Queue
	q.callControlAPI(t, http.MethodGet, "queues", "", &queues)
	if m := queues["Karpenter-sandbox"].Messages; len(m) != 1 || m[0].Body != "hello" {
		t.Errorf("queues %+v", queues)
	}
	q.set(t, http.MethodPut, "queues", `{"Karpenter-sandbox":null,"late":{"attributes":{"VisibilityTimeout":"5"}}}`)
	_, err := q.receive(t.Context(), 0)
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue", 400)
	q.runLocked(func(now time.Time) { q.publishEvent(now, EventStateChange, nil, nil) }) // is lost, harmlessly
	_, err = q.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("late")})
	check(t, err)
	if status := q.callControlAPI(t, http.MethodPut, "queues", `{"x":{"attributes":{"No":"1"}}}`, nil); status != http.StatusBadRequest {
		t.Errorf("bad attribute gives %d", status)
	}
	q.set(t, http.MethodPost, "reset", "")
	q.mustReceive(t, 0)
}

func TestControlsRespondWhileTheModelChanges(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			q.runLocked(func(now time.Time) {
				q.send(now, "Karpenter-sandbox", "x")
				q.iamState().Roles[fmt.Sprint(i)] = Role{}
				q.ssmState().Parameters[fmt.Sprint(i)] = Parameter{}
			})
		}
	}()
	for range 20 {
		for _, name := range []string{"queues", "parameters", "roles", "events", "cluster", "shifts"} {
			q.set(t, http.MethodGet, name, "")
		}
	}
	<-done
}
