package interrupt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
)

// sqsFake holds messages: one that was received is invisible for the requested time.
type sqsFake struct {
	mu       sync.Mutex
	messages []*fakeMessage
	urlError func(try int) error
	receive  func(try int) error
	remove   func(try int) error
	urls     int
	receives int
	removes  int
	latency  time.Duration // of a receive or a delete
}

type fakeMessage struct {
	id, body string
	visible  time.Time
	received int
	deleted  bool
}

func (f *sqsFake) put(body string) *fakeMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &fakeMessage{id: fmt.Sprintf("m-%d", len(f.messages)), body: body}
	f.messages = append(f.messages, m)
	return m
}

func (f *sqsFake) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.urls++
	if f.urlError != nil {
		if err := f.urlError(f.urls); err != nil {
			return nil, err
		}
	}
	return &sqs.GetQueueUrlOutput{QueueUrl: new("https://sqs/" + *in.QueueName)}, nil
}

func (f *sqsFake) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	time.Sleep(f.latency)
	f.mu.Lock()
	f.receives++
	try := f.receives
	f.mu.Unlock()
	if f.receive != nil {
		if err := f.receive(try); err != nil {
			return nil, err
		}
	}
	end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		if out := f.visible(in); len(out.Messages) > 0 || !time.Now().Before(end) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (f *sqsFake) visible(in *sqs.ReceiveMessageInput) *sqs.ReceiveMessageOutput {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range f.messages {
		if m.deleted || time.Now().Before(m.visible) || len(out.Messages) == int(in.MaxNumberOfMessages) {
			continue
		}
		m.received++
		m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
		out.Messages = append(out.Messages, sqstypes.Message{MessageId: new(m.id), ReceiptHandle: new(m.id), Body: new(m.body)})
	}
	return out
}

func (f *sqsFake) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	time.Sleep(f.latency)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removes++
	if f.remove != nil {
		if err := f.remove(f.removes); err != nil {
			return nil, err
		}
	}
	for _, m := range f.messages {
		m.deleted = m.deleted || m.id == *in.ReceiptHandle
	}
	return &sqs.DeleteMessageOutput{}, nil
}

type fleet map[string]inventory.Instance

func (i fleet) Find(_ context.Context, id string) (inventory.Instance, error) {
	switch found, known := i[id]; {
	case !known:
		return inventory.Instance{}, &cloud.Error{Kind: cloud.NotFound}
	case found.ID == "":
		return inventory.Instance{}, &cloud.Error{Kind: cloud.Throttled}
	default:
		return found, nil
	}
}

// run lets a queue run for a while of imagined time, and returns what it logged.
func run(t *testing.T, q *Queue, c *cloudtest.Cluster, length time.Duration) []string {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	ctx, cancel := context.WithTimeout(log.IntoContext(t.Context(), logger), length)
	defer cancel()
	q.Name, q.Cluster, q.Now = "Karpenter-sandbox", "sandbox", time.Now // S-138
	q.Actor = actorOf(c)
	q.Actor.Now = time.Now
	q.Metrics = q.Actor.Metrics
	if err := q.Start(ctx); err != nil {
		t.Error(err)
	}
	return lines
}

func count(lines []string, part string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func code(c string) error { return &smithy.GenericAPIError{Code: c, Message: "text"} }

func TestS047_AMessageLeadsToADeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCluster("i-1"), &sqsFake{}
		m := f.put(spotBody("i-1"))
		lines := run(t, &Queue{SQS: f, Instances: fleet{}}, c, time.Minute)
		if !m.deleted || c.Count("delete claim-i-1") != 1 {
			t.Error(m, c.Did())
		}
		if count(lines, `"watching interruption queue"`) != 1 {
			t.Error(lines)
		}
		// S-172: one line with node and action.
		for _, part := range []string{`"msg"="initiating delete from interruption message"`, `"error"=null`, `"messageKind"="spot_interrupted"`, `"action"="CordonAndDrain"`, `"NodeClaim"={"name"="claim-i-1"}`, `"Node"={"name"="node-i-1"}`} {
			if count(lines, part) != 1 {
				t.Errorf("no line with %s in %v", part, lines)
			}
		}
		if diff := cmp.Diff(map[string]float64{"spot_interrupted": 1}, c.Counted(t, "karpenter_interruption_received_messages_total")); diff != "" {
			t.Error(diff)
		}
		for _, name := range []string{"karpenter_interruption_deleted_messages_total", "karpenter_interruption_message_queue_duration_seconds"} {
			if diff := cmp.Diff(map[string]float64{"": 1}, c.Counted(t, name)); diff != "" {
				t.Error(name, diff)
			}
		}
	})
}

func TestFM_H01_WhatCannotBeReadIsDeletedAndTheLoopGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCluster("i-1"), &sqsFake{}
		for _, body := range []string{"", "{", strings.Repeat("x", 300000), event0("aws.s3", "Object Created", `{}`), spotBody("i-1")} {
			f.put(body)
		}
		lines := run(t, &Queue{SQS: f, Instances: fleet{}}, c, time.Minute)
		for _, m := range f.messages {
			if !m.deleted || m.received != 1 {
				t.Errorf("%s: %+v", m.id, *m)
			}
		}
		if n := count(lines, "cannot be read"); n != 3 {
			t.Errorf("%d lines about messages that cannot be read", n)
		}
		want := map[string]float64{"malformed": 3, "no_op": 1, "spot_interrupted": 1}
		if diff := cmp.Diff(want, c.Counted(t, "karpenter_interruption_received_messages_total")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFM_H03_AMessageWaitsForItsClaim(t *testing.T) {
	t.Parallel()
	ours := map[string]string{inventory.TagCluster: "sandbox", inventory.TagNodePool: "default", inventory.TagNodeClass: "default"}
	theirs := map[string]string{inventory.TagCluster: "other", inventory.TagNodePool: "default", inventory.TagNodeClass: "default"}
	for name, tc := range map[string]struct {
		instance *inventory.Instance
		later    bool // the claim shows up after ten seconds
		fresh    bool // the warning is new
		received int
		deletes  int
	}{
		"ours, and its claim comes":            {instance: &inventory.Instance{ID: "i-1", Tags: ours}, later: true, received: 1, deletes: 1},
		"ours, but its claim never comes":      {instance: &inventory.Instance{ID: "i-1", Tags: ours}, received: 2},
		"ours, but on its way out":             {instance: &inventory.Instance{ID: "i-1", Tags: ours, State: inventory.StateShuttingDown}, received: 1},
		"H05 of another cluster":               {instance: &inventory.Instance{ID: "i-1", Tags: theirs}, received: 1},
		"not shown by EC2 yet":                 {fresh: true, later: true, received: 1, deletes: 1},
		"not a node at all":                    {instance: &inventory.Instance{ID: "i-1"}, received: 1},
		"H04 an instance that is gone":         {received: 1},
		"an instance that cannot be looked up": {instance: &inventory.Instance{}, received: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, f, known := newCluster(), &sqsFake{}, fleet{}
				if tc.instance != nil {
					known["i-1"] = *tc.instance
				}
				body := spotBody("i-1")
				if tc.fresh {
					body = strings.Replace(body, "2030-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339), 1)
				}
				m := f.put(body)
				if tc.later {
					time.AfterFunc(10*time.Second, func() {
						c.SetClaim("i-1", newCluster("i-1"))
					})
				}
				run(t, &Queue{SQS: f, Instances: known}, c, 5*time.Minute)
				if m.received != tc.received || !m.deleted || c.Count("delete") != tc.deletes {
					t.Errorf("received %d times, deleted %v, %v", m.received, m.deleted, c.Did())
				}
			})
		})
	}
}

func TestFM_H05_ASharedQueueIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f, known := newCluster(), &sqsFake{}, fleet{}
		for n := range 5 {
			id := fmt.Sprintf("i-%d", n)
			known[id] = inventory.Instance{ID: id, Tags: map[string]string{inventory.TagCluster: "other", inventory.TagNodePool: "default", inventory.TagNodeClass: "default"}}
			f.put(spotBody(id))
		}
		if lines := run(t, &Queue{SQS: f, Instances: known}, c, time.Minute); count(lines, "another cluster") != 1 {
			t.Error(lines)
		}
	})
}

func TestFM_H06_AMissingQueueIsReportedSlowlyAndFoundLater(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]string{"what SQS responses": "AWS.SimpleQueueService.NonExistentQueue", "what its model says": "QueueDoesNotExist"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, f := newCluster("i-1"), &sqsFake{}
				begun := time.Now()
				f.urlError = func(int) error {
					if time.Since(begun) < 10*time.Minute {
						return code(missing)
					}
					return nil
				}
				m := f.put(spotBody("i-1"))
				lines := run(t, &Queue{SQS: f, Instances: fleet{}}, c, 15*time.Minute)
				if n := count(lines, "there is no queue"); n < 3 || n > 15 {
					t.Errorf("%d lines in ten minutes", n)
				}
				if !m.deleted || c.Count("delete") != 1 {
					t.Error("it did not recover")
				}
			})
		})
	}
}

func TestFM_H07_DeniedOrFailingReceivesRecover(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		line string
		urls int
	}{
		"denied":         {code("AccessDenied"), "sqs:ReceiveMessage", 1},
		"timeout":        {context.DeadlineExceeded, "ReceiveMessage of queue", 1},
		"queue replaced": {code("AWS.SimpleQueueService.NonExistentQueue"), "there is no queue", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, f := newCluster("i-1"), &sqsFake{}
				f.receive = func(try int) error {
					if try <= 3 {
						return tc.err
					}
					return nil
				}
				m := f.put(spotBody("i-1"))
				lines := run(t, &Queue{SQS: f, Instances: fleet{}}, c, 5*time.Minute)
				if count(lines, tc.line) != 3 || !m.deleted || f.urls != tc.urls {
					t.Errorf("deleted %v, %d look-ups of the URL, lines %v", m.deleted, f.urls, lines)
				}
			})
		})
	}
}

func TestFM_H08_AFailedDeleteBringsTheMessageAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCluster("i-1"), &sqsFake{}
		f.remove = func(try int) error {
			if try == 1 {
				return errors.New("no")
			}
			return nil
		}
		m := f.put(spotBody("i-1"))
		run(t, &Queue{SQS: f, Instances: fleet{}}, c, time.Minute)
		if m.received != 2 || !m.deleted || c.Count("delete") != 1 {
			t.Errorf("%+v, %v", *m, c.Did())
		}
	})
}

func TestAHandlerErrorLeavesTheMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newCluster("i-1"), &sqsFake{}
		c.Fail = errors.New("no API server")
		m := f.put(spotBody("i-1"))
		run(t, &Queue{SQS: f, Instances: fleet{}}, c, 65*time.Second)
		if m.received < 3 || m.deleted {
			t.Errorf("%+v", *m)
		}
	})
}

func TestFM_H09_AThousandInterruptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for n := range 1000 {
			ids = append(ids, fmt.Sprintf("i-%d", n))
		}
		c, f := newCluster(ids...), &sqsFake{}
		for _, id := range ids {
			f.put(spotBody(id))
		}
		run(t, &Queue{SQS: f, Instances: fleet{}}, c, time.Minute)
		if n := c.Count("delete"); n != 1000 {
			t.Errorf("%d of 1000 claims are deleted", n)
		}
	})
}
