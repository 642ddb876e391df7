package awsemu

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// SQSState is the queues, and the rules of EventBridge that fill them.
type SQSState struct {
	Queues map[string]*Queue     `json:"queues"` // by name
	Rules  map[string]*EventRule `json:"rules"`  // by name
}

// interruptionQueue is how an installation makes its queue (S-028). A message is of no use once the instance
// is gone; who receives one says for how long it hides it, so that the other number has no effect.
func interruptionQueue() map[string]string {
	return map[string]string{retentionAttribute: "300", visibilityAttribute: "60", encryptionAttribute: "true"}
}

func (e *Emulator) registerSQS() {
	for action, run := range map[string]func(*call) (any, error){
		"GetQueueUrl": e.getQueueURL, "GetQueueAttributes": e.getQueueAttributes, "ListQueues": e.listQueues,
		"ListQueueTags": e.listQueueTags,
	} {
		e.register(wire.SQS, action, run)
	}
	for action, run := range map[string]func(*call) (any, error){
		"DeleteMessage": e.deleteMessage, "DeleteMessageBatch": e.deleteMessageBatch, "SendMessage": e.sendMessage,
		"CreateQueue": e.createQueue, "SetQueueAttributes": e.setQueueAttributes, "PurgeQueue": e.purgeQueue, "DeleteQueue": e.deleteQueue,
		"TagQueue": e.tagQueue, "UntagQueue": e.untagQueue,
	} {
		e.registerMutating(wire.SQS, action, run)
	}
	e.registerLong(wire.SQS, "ReceiveMessage", e.receiveMessage)
	e.controls["queues"] = e.queuesControl()
	e.controls["message"] = control{http.MethodPost: e.injectMessage}
	e.controls["events"] = e.eventsControl()
}

func (e *Emulator) resetSQS(now time.Time) {
	e.model.SQS = nil
	queues := e.sqsState().Queues // a snapshot has all parts, also without a queue
	if e.fixture.hasQueue() {
		queues[e.fixture.Queue] = newQueue(now, e.fixture.Queue, interruptionQueue())
	}
	e.resetEvents()
}

// sqsState is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) sqsState() *SQSState {
	if e.model.SQS == nil {
		e.model.SQS = &SQSState{}
	}
	s := e.model.SQS
	if s.Queues == nil {
		s.Queues = map[string]*Queue{}
	}
	if s.Rules == nil {
		s.Rules = map[string]*EventRule{}
	}
	return s
}

// send puts a message into a queue and wakes the receivers that wait for one. A queue that does not exist loses the
// message, as a target of EventBridge does. The emulator must be locked.
func (e *Emulator) send(now time.Time, queue, body string) {
	q := e.sqsState().Queues[queue]
	if q == nil {
		return
	}
	e.putMessage(now, q, body, 0, 1+max(q.Duplicates, 0))
}

// putMessage stores copies of one message: what at-least-once delivery may do.
func (e *Emulator) putMessage(now time.Time, q *Queue, body string, delay time.Duration, copies int) Message {
	id := e.messageID()
	for range copies {
		q.Messages = append(q.Messages, Message{ID: id, Key: e.nextID(""), Body: body, Sent: now, Visible: now.Add(delay)})
	}
	e.notifyChange()
	return q.Messages[len(q.Messages)-1]
}

// messageID looks as SQS makes them: a UUID.
func (e *Emulator) messageID() string {
	hex := e.nextID("") + e.nextID("")
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-")
}

// queueURL is where clients believe the queue is; they send it back to us.
func (e *Emulator) queueURL(c *call, name string) string {
	return "http://" + c.Host + "/" + e.fixture.Account + "/" + name
}

func noQueue() error {
	return sqsError("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
}

// sqsError carries the code of the query protocol too: the SDK prefers it.
func sqsError(code, queryCode, message string) error {
	return &wire.Error{Code: code, QueryCode: queryCode, Message: message}
}

func invalidParameter(message string) error {
	return sqsError("InvalidParameterValueException", "InvalidParameterValue", message)
}

// queueOf finds the queue of a URL, with what is too old gone. The emulator must be locked.
func (e *Emulator) queueOf(now time.Time, address string) (*Queue, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, noQueue()
	}
	account, name, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	q := e.sqsState().Queues[name]
	if q == nil || account != e.fixture.Account {
		return nil, noQueue()
	}
	q.dropExpired(now)
	return q, nil
}

func (e *Emulator) getQueueURL(c *call) (any, error) {
	var in struct{ QueueName, QueueOwnerAWSAccountId string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if e.sqsState().Queues[in.QueueName] == nil || (in.QueueOwnerAWSAccountId != "" && in.QueueOwnerAWSAccountId != e.fixture.Account) {
		return nil, noQueue()
	}
	return map[string]string{"QueueUrl": e.queueURL(c, in.QueueName)}, nil
}

func (e *Emulator) listQueues(c *call) (any, error) {
	var in struct {
		QueueNamePrefix string
		MaxResults      int
		NextToken       string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(e.sqsState().Queues)) {
		if strings.HasPrefix(name, in.QueueNamePrefix) && name > in.NextToken && e.sqsState().Queues[name] != nil {
			names = append(names, name)
		}
	}
	out := struct {
		QueueUrls []string `json:",omitempty"`
		NextToken string   `json:",omitempty"`
	}{}
	if in.MaxResults > 0 && len(names) > in.MaxResults {
		names = names[:in.MaxResults]
		out.NextToken = names[len(names)-1]
	}
	for _, name := range names {
		out.QueueUrls = append(out.QueueUrls, e.queueURL(c, name))
	}
	return out, nil
}

func (e *Emulator) createQueue(c *call) (any, error) {
	var in struct {
		QueueName  string
		Attributes map[string]string
		Tags       map[string]string `json:"tags"`
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if ok, err := regexp.MatchString(`^[A-Za-z0-9_-]{1,80}$`, in.QueueName); err != nil || !ok {
		return nil, invalidParameter("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	if err := validAttributes(in.Attributes); err != nil {
		return nil, err
	}
	if q := e.sqsState().Queues[in.QueueName]; q != nil {
		for name, value := range in.Attributes {
			if q.attributeValue(name) != value {
				return nil, sqsError("QueueNameExists", "QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute "+name)
			}
		}
		return map[string]string{"QueueUrl": e.queueURL(c, in.QueueName)}, nil
	}
	e.sqsState().Queues[in.QueueName] = newQueue(c.now, in.QueueName, in.Attributes)
	e.sqsState().Queues[in.QueueName].Tags = in.Tags
	return map[string]string{"QueueUrl": e.queueURL(c, in.QueueName)}, nil
}

// onQueue decodes the request of an operation and finds its queue.
func (e *Emulator) onQueue(c *call, into any) (*Queue, error) {
	var address struct {
		QueueURL string `json:"QueueUrl"`
	}
	if err := c.JSON(&address); err != nil {
		return nil, err
	}
	if into != nil {
		if err := c.JSON(into); err != nil {
			return nil, err
		}
	}
	return e.queueOf(c.now, address.QueueURL)
}

func (e *Emulator) setQueueAttributes(c *call) (any, error) {
	var in struct{ Attributes map[string]string }
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	if err := validAttributes(in.Attributes); err != nil {
		return nil, err
	}
	q.set(c.now, in.Attributes)
	return nil, nil
}

func (e *Emulator) getQueueAttributes(c *call) (any, error) {
	var in struct{ AttributeNames []string }
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	all := q.attributeValues(c.now, e.accountARN("sqs", q.Name))
	out := map[string]string{}
	for _, name := range in.AttributeNames {
		if name == "All" {
			return map[string]any{"Attributes": all}, nil
		}
		if value, found := all[name]; found {
			out[name] = value
		} else if !slices.Contains(knownAttributes(), name) {
			return nil, sqsError("InvalidAttributeName", "InvalidAttributeName", "Unknown Attribute "+name+".")
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return map[string]any{"Attributes": out}, nil
}

func (e *Emulator) listQueueTags(c *call) (any, error) {
	q, err := e.onQueue(c, nil)
	if err != nil || len(q.Tags) == 0 {
		return nil, err
	}
	return map[string]any{"Tags": maps.Clone(q.Tags)}, nil
}

func (e *Emulator) tagQueue(c *call) (any, error) {
	var in struct{ Tags map[string]string }
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	merged := map[string]string{}
	maps.Copy(merged, q.Tags)
	maps.Copy(merged, in.Tags)
	q.Tags = merged
	return nil, nil
}

func (e *Emulator) untagQueue(c *call) (any, error) {
	var in struct{ TagKeys []string }
	q, err := e.onQueue(c, &in)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(q.Tags, key)
	}
	return nil, nil
}

func (e *Emulator) purgeQueue(c *call) (any, error) {
	q, err := e.onQueue(c, nil)
	if err != nil {
		return nil, err
	}
	q.Messages = nil
	return nil, nil
}

func (e *Emulator) deleteQueue(c *call) (any, error) {
	q, err := e.onQueue(c, nil)
	if err != nil {
		return nil, err
	}
	delete(e.sqsState().Queues, q.Name)
	return nil, nil
}

// queueSetting is one queue in the body of the control "queues".
type queueSetting struct {
	Attributes map[string]string `json:"attributes,omitempty"`
	Duplicates *int              `json:"duplicates,omitempty"`
	InFlight   *int              `json:"inFlight,omitempty"`
}

// queuesControl shows the queues with their messages, and creates, changes or (null) deletes those it
// is told.
func (e *Emulator) queuesControl() control {
	return control{
		http.MethodGet: func(r *controlRequest) (any, error) {
			for _, q := range e.sqsState().Queues {
				if q != nil {
					q.dropExpired(r.now)
				}
			}
			return marshalLocked(e.sqsState().Queues)
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var in map[string]*queueSetting
			if err := r.decode(&in); err != nil {
				return nil, err
			}
			for _, name := range slices.Sorted(maps.Keys(in)) {
				if err := e.setQueue(r.now, name, in[name]); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
}

// marshalLocked renders a value of the model while the emulator is locked; controls respond when it is not any
// more.
func marshalLocked(value any) (json.RawMessage, error) { return json.Marshal(value) }

func (e *Emulator) setQueue(now time.Time, name string, setting *queueSetting) error {
	if setting == nil {
		delete(e.sqsState().Queues, name)
		return nil
	}
	if err := validAttributes(setting.Attributes); err != nil {
		return err
	}
	q := e.sqsState().Queues[name]
	if q == nil {
		q = newQueue(now, name, nil)
		e.sqsState().Queues[name] = q
	}
	q.set(now, setting.Attributes)
	if setting.Duplicates != nil {
		q.Duplicates = min(max(*setting.Duplicates, 0), maxCopies)
	}
	if setting.InFlight != nil {
		q.InFlight = max(*setting.InFlight, 0)
	}
	return nil
}
