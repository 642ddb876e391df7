package awsemu

import (
	"crypto/md5" // the protocol requires it
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// handlePrefix starts our receipt handles: AQEB.<key>.<number of the receive>.
const handlePrefix = "AQEB."

func (m Message) handle() string { return handlePrefix + m.Key + "." + strconv.Itoa(m.Receives) }

func readHandle(handle string) (key string, receives int, valid bool) {
	rest, ours := strings.CutPrefix(handle, handlePrefix)
	key, number, _ := strings.Cut(rest, ".")
	receives, err := strconv.Atoi(number)
	return key, receives, ours && err == nil
}

func md5Of(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

type receiveInput struct {
	QueueURL                    string `json:"QueueUrl"`
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	AttributeNames              []string
	MessageSystemAttributeNames []string
}

func (in *receiveInput) validate() error {
	for _, p := range []struct {
		name        string
		value       *int
		least, most int
	}{
		{"MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 10},
		{visibilityAttribute, in.VisibilityTimeout, 0, 43200},
		{"WaitTimeSeconds", in.WaitTimeSeconds, 0, 20},
	} {
		if p.value != nil && (*p.value < p.least || *p.value > p.most) {
			return invalidParameter(fmt.Sprintf("Value %d for parameter %s is invalid. Reason: Must be >= %d and <= %d, if provided.", *p.value, p.name, p.least, p.most))
		}
	}
	return nil
}

type receivedMessage struct {
	MessageID     string `json:"MessageId"`
	ReceiptHandle string
	Body          string
	MD5OfBody     string
	Attributes    map[string]string `json:",omitempty"`
}

// receiveMessage waits, by the wall clock, for as long as the client requests. It checks again when the
// model changes, when the clock is set, and when a hidden message comes back.
func (e *Emulator) receiveMessage(c *call) (any, error) {
	var in receiveInput
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if err := in.validate(); err != nil {
		return nil, err
	}
	var timer *time.Timer
	for {
		try, err := e.tryReceive(c, &in)
		if err != nil {
			return nil, err
		}
		if len(try.messages) > 0 || try.wait <= 0 {
			return receiveOutput(try.messages, &in), nil
		}
		if timer == nil {
			timer = time.NewTimer(try.wait)
			defer timer.Stop()
		}
		reached, stop := e.clock.Until(try.next)
		select {
		case <-try.changed:
		case <-reached:
		case <-timer.C:
			stop()
			return nil, nil
		case <-c.gone:
			stop()
			return nil, wire.Errorf("RequestTimeout", "the client is gone")
		}
		stop()
	}
}

// receiveTry is one look into the queue.
type receiveTry struct {
	messages []Message
	wait     time.Duration
	changed  <-chan struct{}
	next     time.Time // when to check again, in emulated time
}

func (e *Emulator) tryReceive(c *call, in *receiveInput) (receiveTry, error) {
	var try receiveTry
	err := c.runLocked(func(*Model) error {
		q, err := e.queueOf(c.now, in.QueueURL)
		if err != nil {
			return err
		}
		if q.isFull(c.now) {
			return sqsError("OverLimit", "OverLimit", "The maximum number of in flight messages is reached.")
		}
		most, hide := 1, q.durationAttribute(visibilityAttribute)
		try.wait = q.durationAttribute(waitAttribute)
		if in.MaxNumberOfMessages != nil {
			most = *in.MaxNumberOfMessages
		}
		if in.VisibilityTimeout != nil {
			hide = time.Duration(*in.VisibilityTimeout) * time.Second
		}
		if in.WaitTimeSeconds != nil {
			try.wait = time.Duration(*in.WaitTimeSeconds) * time.Second
		}
		try.messages = q.receive(c.now, most, hide)
		try.changed = e.changed
		try.next = e.nextPoll(c.now, q)
		return nil
	})
	return try, err
}

// nextPoll is when something may arrive by itself. An hour is longer than anyone waits.
func (e *Emulator) nextPoll(now time.Time, q *Queue) time.Time {
	next := now.Add(time.Hour)
	if visible, found := q.nextVisible(); found && visible.After(now) && visible.Before(next) {
		next = visible
	}
	if event := e.nextEC2(now); event.After(now) && event.Before(next) {
		next = event
	}
	return next
}

func receiveOutput(messages []Message, in *receiveInput) any {
	if len(messages) == 0 {
		return nil
	}
	wanted := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
	out := make([]receivedMessage, 0, len(messages))
	for _, m := range messages {
		all := map[string]string{
			"SentTimestamp":                    strconv.FormatInt(m.Sent.UnixMilli(), 10),
			"ApproximateReceiveCount":          strconv.Itoa(m.Receives),
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.First.UnixMilli(), 10),
			"SenderId":                         "AIDAEMULATED00000000",
		}
		attributes := map[string]string{}
		for name, value := range all {
			if slices.Contains(wanted, "All") || slices.Contains(wanted, name) {
				attributes[name] = value
			}
		}
		out = append(out, receivedMessage{MessageID: m.ID, ReceiptHandle: m.handle(), Body: m.Body, MD5OfBody: md5Of(m.Body), Attributes: attributes})
	}
	return map[string]any{"Messages": out}
}

func (e *Emulator) sendMessage(c *call) (any, error) {
	var in struct {
		MessageBody  *string
		DelaySeconds *int
	}
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	delay := q.durationAttribute(delayAttribute)
	switch {
	case in.MessageBody == nil || *in.MessageBody == "":
		return nil, sqsError("MissingRequiredParameterException", "MissingParameter", "The request must contain the parameter MessageBody.")
	case len(*in.MessageBody) > 1<<20:
		return nil, invalidParameter("One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")
	case in.DelaySeconds != nil && (*in.DelaySeconds < 0 || *in.DelaySeconds > 900):
		return nil, invalidParameter(fmt.Sprintf("Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", *in.DelaySeconds))
	case in.DelaySeconds != nil:
		delay = time.Duration(*in.DelaySeconds) * time.Second
	}
	m := e.putMessage(c.now, q, *in.MessageBody, delay, 1+max(q.Duplicates, 0))
	return map[string]string{"MessageId": m.ID, "MD5OfMessageBody": md5Of(m.Body)}, nil
}

func badHandle(handle string) error {
	return sqsError("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The input receipt handle \""+handle+"\" is not a valid receipt handle.")
}

func (e *Emulator) deleteMessage(c *call) (any, error) {
	var in struct{ ReceiptHandle string }
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	key, receives, valid := readHandle(in.ReceiptHandle)
	if !valid {
		return nil, badHandle(in.ReceiptHandle)
	}
	q.remove(key, receives)
	return nil, nil
}

type batchSuccess struct {
	ID string `json:"Id"`
}

type batchFailure struct {
	ID          string `json:"Id"`
	Code        string
	Message     string
	SenderFault bool
}

func (e *Emulator) deleteMessageBatch(c *call) (any, error) {
	var in struct {
		Entries []struct {
			ID            string `json:"Id"`
			ReceiptHandle string
		}
	}
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	const prefix = "AWS.SimpleQueueService."
	if len(in.Entries) == 0 {
		return nil, sqsError("EmptyBatchRequest", prefix+"EmptyBatchRequest", "There should be at least one DeleteMessageBatchRequestEntry in the request.")
	}
	if len(in.Entries) > 10 {
		return nil, sqsError("TooManyEntriesInBatchRequest", prefix+"TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.")
	}
	seen := map[string]bool{}
	for _, entry := range in.Entries {
		if seen[entry.ID] {
			return nil, sqsError("BatchEntryIdsNotDistinct", prefix+"BatchEntryIdsNotDistinct", "Id "+entry.ID+" repeated.")
		}
		seen[entry.ID] = true
	}
	out := struct {
		Successful []batchSuccess
		Failed     []batchFailure
	}{Successful: []batchSuccess{}, Failed: []batchFailure{}}
	for _, entry := range in.Entries {
		key, receives, valid := readHandle(entry.ReceiptHandle)
		if !valid {
			out.Failed = append(out.Failed, batchFailure{ID: entry.ID, Code: "ReceiptHandleIsInvalid", Message: badHandle(entry.ReceiptHandle).Error(), SenderFault: true})
			continue
		}
		q.remove(key, receives)
		out.Successful = append(out.Successful, batchSuccess{ID: entry.ID})
	}
	return out, nil
}

// injectMessage puts the raw body of the request into a queue, whatever it is: malformed, of an
// unknown kind, empty. The query names the queue (of the fixture if absent) and the copies.
func (e *Emulator) injectMessage(r *controlRequest) (any, error) {
	name, copies := r.query("queue"), 1
	if name == "" {
		name = e.fixture.Queue
	}
	if text := r.query("copies"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxCopies {
			return nil, fmt.Errorf("copies: %q is not a number from 1 to %d", text, maxCopies)
		}
		copies = n
	}
	q := e.sqsState().Queues[name]
	if q == nil {
		return nil, fmt.Errorf("queue: there is no queue %q", name)
	}
	m := e.putMessage(r.now, q, string(r.body), 0, copies)
	return map[string]string{"id": m.ID}, nil
}
