package interrupt

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/interruption"
)

// maxBody is the most that SQS takes. Anything longer is not from it.
const maxBody = 1 << 20

// Message is what one message of the queue says.
type Message struct {
	Kind      interruption.Kind
	Instances []string  // in order, without repeats; none for NoOp
	Time      time.Time // of the event; zero if the message has none
}

// envelope is an event of EventBridge, with the members of all details that are read.
type envelope struct {
	Version    string          `json:"version"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       string          `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

type detail struct {
	Instance string `json:"instance-id"`
	State    string `json:"state"`
	Service  string `json:"service"`
	Category string `json:"eventTypeCategory"`
	Affected []struct {
		Value string `json:"entityValue"`
	} `json:"affectedEntities"`
}

// Parse reads the body of a message. What is a JSON object but nothing we know is NoOp. An error means
// that the message can never be read.
func Parse(body string) (Message, error) {
	if body == "" {
		return Message{}, errors.New("the body is empty")
	}
	if len(body) > maxBody {
		return Message{}, fmt.Errorf("the body has %d bytes, more than SQS takes", len(body))
	}
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return Message{}, fmt.Errorf("the body is not an event of EventBridge: %w", err)
	}
	if e.Version != "0" || !known(e) {
		return Message{Kind: interruption.NoOp}, nil
	}
	var d detail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return Message{}, fmt.Errorf("detail of %q: %w", e.DetailType, err)
	}
	m := Message{Kind: kindOf(e, d)}
	if m.Kind == interruption.NoOp {
		return m, nil
	}
	if m.Instances = instances(d); len(m.Instances) == 0 {
		if m.Kind == interruption.ScheduledChange {
			return Message{Kind: interruption.NoOp}, nil // maintenance of something else, such as a volume
		}
		return Message{}, fmt.Errorf("detail of %q names no instance", e.DetailType)
	}
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil {
		m.Time = at
	}
	return m, nil
}

// Sources and detail types.
const (
	ec2Source    = "aws.ec2"
	healthSource = "aws.health"

	spotWarning        = "EC2 Spot Instance Interruption Warning"
	rebalance          = "EC2 Instance Rebalance Recommendation"
	stateChange        = "EC2 Instance State-change Notification"
	reservationWarning = "EC2 Capacity Reservation Instance Interruption Warning"
	health             = "AWS Health Event"
)

func known(e envelope) bool {
	switch e.Source {
	case ec2Source:
		return slices.Contains([]string{spotWarning, rebalance, stateChange, reservationWarning}, e.DetailType)
	case healthSource:
		return e.DetailType == health
	default:
		return false
	}
}

// kindOf reads the kind of a known event.
func kindOf(e envelope, d detail) interruption.Kind {
	switch e.DetailType {
	case spotWarning:
		return interruption.SpotInterrupted
	case rebalance:
		return interruption.RebalanceRecommended
	case reservationWarning:
		return interruption.ReservationInterrupted
	case stateChange:
		switch d.State {
		case "stopping", "stopped":
			return interruption.InstanceStopped
		case "shutting-down", "terminated":
			return interruption.InstanceTerminated
		}
	case health:
		if d.Service == "EC2" && d.Category == "scheduledChange" {
			return interruption.ScheduledChange
		}
	}
	return interruption.NoOp
}

// instances are the ids a detail names; an entity may also be given as ARN.
func instances(d detail) []string {
	var ids []string
	add := func(id string) {
		id = id[strings.LastIndex(id, "/")+1:]
		if strings.HasPrefix(id, "i-") && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	add(d.Instance)
	for _, entity := range d.Affected {
		add(entity.Value)
	}
	return ids
}
