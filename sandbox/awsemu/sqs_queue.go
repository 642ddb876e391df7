package awsemu

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Queue is a standard queue: at-least-once delivery, without an order.
type Queue struct {
	Name       string            `json:"name"`
	Created    time.Time         `json:"created"`
	Modified   time.Time         `json:"modified"`
	Attributes map[string]string `json:"attributes,omitempty"` // those that were set
	Tags       map[string]string `json:"tags,omitempty"`
	Messages   []Message         `json:"messages"`
	Duplicates int               `json:"duplicates,omitempty"` // extra copies of every message that is sent
	InFlight   int               `json:"inFlight,omitempty"`   // how many messages may be received and not deleted; 0: as many as SQS allows
}

// Message is one in a queue. Copies of a message share the id, not the key.
type Message struct {
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	Body     string    `json:"body"`
	Sent     time.Time `json:"sent"`
	Visible  time.Time `json:"visible"` // from when it can be received
	First    time.Time `json:"first,omitzero"`
	Receives int       `json:"receives"`
}

const (
	retentionAttribute  = "MessageRetentionPeriod"
	visibilityAttribute = "VisibilityTimeout"
	waitAttribute       = "ReceiveMessageWaitTimeSeconds"
	delayAttribute      = "DelaySeconds"
	encryptionAttribute = "SqsManagedSseEnabled"
)

// maxCopies bounds injected duplicates.
const maxCopies = 10

// numberAttribute is a setting of a queue that is a number.
type numberAttribute struct{ least, most, usual int }

func numberAttributes() map[string]numberAttribute {
	return map[string]numberAttribute{
		visibilityAttribute:  {0, 43200, 30},
		retentionAttribute:   {60, 1209600, 345600},
		waitAttribute:        {0, 20, 0},
		delayAttribute:       {0, 900, 0},
		"MaximumMessageSize": {1024, 1 << 20, 1 << 20},
	}
}

// textAttributes can be set and are only kept.
func textAttributes() []string {
	return []string{"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", encryptionAttribute}
}

func knownAttributes() []string {
	return slices.Concat(slices.Collect(maps.Keys(numberAttributes())), textAttributes(), []string{
		"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
		"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn", "FifoQueue", "ContentBasedDeduplication",
	})
}

func validAttributes(in map[string]string) error {
	numbers := numberAttributes()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		limit, isNumber := numbers[name]
		if !isNumber {
			if !slices.Contains(textAttributes(), name) {
				return sqsError("InvalidAttributeName", "InvalidAttributeName", "Unknown Attribute "+name+".")
			}
			continue
		}
		if n, err := strconv.Atoi(in[name]); err != nil || n < limit.least || n > limit.most {
			return sqsError("InvalidAttributeValue", "InvalidAttributeValue", "Invalid value for the parameter "+name+".")
		}
	}
	return nil
}

func newQueue(now time.Time, name string, attributes map[string]string) *Queue {
	return &Queue{Name: name, Created: now, Modified: now, Attributes: maps.Clone(attributes), Messages: []Message{}}
}

func (q *Queue) set(now time.Time, attributes map[string]string) {
	if len(attributes) == 0 {
		return
	}
	if q.Attributes == nil {
		q.Attributes = map[string]string{}
	}
	maps.Copy(q.Attributes, attributes)
	q.Modified = now
}

func (q *Queue) attributeValue(name string) string {
	if value, found := q.Attributes[name]; found {
		return value
	}
	if number, found := numberAttributes()[name]; found {
		return strconv.Itoa(number.usual)
	}
	return ""
}

// durationAttribute is a setting that is a length of time.
func (q *Queue) durationAttribute(name string) time.Duration {
	n, err := strconv.Atoi(q.attributeValue(name))
	if err != nil {
		n = numberAttributes()[name].usual // an import may hold anything
	}
	return time.Duration(n) * time.Second
}

// dropExpired drops what is older than the retention.
func (q *Queue) dropExpired(now time.Time) {
	retention := q.durationAttribute(retentionAttribute)
	q.Messages = slices.DeleteFunc(q.Messages, func(m Message) bool { return !now.Before(m.Sent.Add(retention)) })
}

// maxInFlight is how many messages of a standard queue may be received and not deleted.
const maxInFlight = 120000

// isFull reports whether consumers have more messages in hand than they may.
func (q *Queue) isFull(now time.Time) bool {
	inHand := 0
	for i := range q.Messages {
		if q.Messages[i].Receives > 0 && q.Messages[i].Visible.After(now) {
			inHand++
		}
	}
	return inHand >= cmp.Or(q.InFlight, maxInFlight)
}

// receive hands out at most so many messages and hides them for a while.
func (q *Queue) receive(now time.Time, most int, hide time.Duration) []Message {
	var out []Message
	for i := range q.Messages {
		m := &q.Messages[i]
		if len(out) == most {
			break
		}
		if m.Visible.After(now) {
			continue
		}
		m.Receives++
		m.Visible = now.Add(hide)
		if m.First.IsZero() {
			m.First = now
		}
		out = append(out, *m)
	}
	return out
}

// nextVisible is when a hidden message can be received again, if there is one.
func (q *Queue) nextVisible() (time.Time, bool) {
	var first time.Time
	for _, m := range q.Messages {
		if first.IsZero() || m.Visible.Before(first) {
			first = m.Visible
		}
	}
	return first, len(q.Messages) > 0
}

// remove deletes the message of a receipt handle. Only the handle of the latest receive counts.
func (q *Queue) remove(key string, receives int) {
	q.Messages = slices.DeleteFunc(q.Messages, func(m Message) bool { return m.Key == key && m.Receives == receives })
}

func (q *Queue) attributeValues(now time.Time, arn string) map[string]string {
	out := map[string]string{
		"QueueArn": arn, "CreatedTimestamp": strconv.FormatInt(q.Created.Unix(), 10),
		"LastModifiedTimestamp": strconv.FormatInt(q.Modified.Unix(), 10), encryptionAttribute: "true",
	}
	for name := range numberAttributes() {
		out[name] = q.attributeValue(name)
	}
	maps.Copy(out, q.Attributes)
	var visible, hidden, delayed int
	for _, m := range q.Messages {
		switch {
		case !m.Visible.After(now):
			visible++
		case m.Receives > 0:
			hidden++
		default:
			delayed++
		}
	}
	out["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
	out["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(hidden)
	out["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
	return out
}
