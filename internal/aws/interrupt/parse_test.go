package interrupt

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/interruption"
)

func event0(source, kind, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":"7b0a","detail-type":%q,"source":%q,"account":"111122223333","time":"2030-01-01T00:00:00Z","region":"eu-west-1","resources":["arn:aws:ec2:eu-west-1a:instance/i-0abc"],"detail":%s}`, kind, source, detail)
}

func spotBody(id string) string {
	return event0("aws.ec2", spotWarning, `{"instance-id":"`+id+`","instance-action":"terminate"}`)
}

func stateBody(id, state string) string {
	return event0("aws.ec2", stateChange, `{"instance-id":"`+id+`","state":"`+state+`"}`)
}

// S-137: the four rules of EventBridge, and what the table of 7.1 makes of them.
func TestS137_Parse(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	one := func(k interruption.Kind) Message { return Message{Kind: k, Instances: []string{"i-0abc"}, Time: at} }
	healthBody := func(service, category, entities string) string {
		return event0("aws.health", health, `{"eventArn":"arn","service":"`+service+`","eventTypeCode":"AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED","eventTypeCategory":"`+category+`","affectedEntities":[`+entities+`]}`)
	}
	for name, tc := range map[string]struct {
		body string
		want Message
		bad  bool
	}{
		"spot warning":               {body: spotBody("i-0abc"), want: one(interruption.SpotInterrupted)},
		"rebalance":                  {body: event0("aws.ec2", rebalance, `{"instance-id":"i-0abc"}`), want: one(interruption.RebalanceRecommended)},
		"stopping":                   {body: stateBody("i-0abc", "stopping"), want: one(interruption.InstanceStopped)},
		"stopped":                    {body: stateBody("i-0abc", "stopped"), want: one(interruption.InstanceStopped)},
		"shutting down":              {body: stateBody("i-0abc", "shutting-down"), want: one(interruption.InstanceTerminated)},
		"terminated":                 {body: stateBody("i-0abc", "terminated"), want: one(interruption.InstanceTerminated)},
		"running is no interruption": {body: stateBody("i-0abc", "running"), want: Message{Kind: interruption.NoOp}},
		"pending is none either":     {body: stateBody("i-0abc", "pending"), want: Message{Kind: interruption.NoOp}},
		"reservation":                {body: event0("aws.ec2", reservationWarning, `{"instance-id":"i-0abc","instance-action":"terminate"}`), want: one(interruption.ReservationInterrupted)},
		"scheduled change":           {body: healthBody("EC2", "scheduledChange", `{"entityValue":"i-0abc"}`), want: one(interruption.ScheduledChange)},
		"scheduled change of many": {
			body: healthBody("EC2", "scheduledChange", `{"entityValue":"i-1"},{"entityValue":"arn:aws:ec2:eu-west-1:1:instance/i-2"},{"entityValue":"i-1"},{"entityValue":"vol-1"},{}`),
			want: Message{Kind: interruption.ScheduledChange, Instances: []string{"i-1", "i-2"}, Time: at},
		},
		"health of another service":       {body: healthBody("RDS", "scheduledChange", `{"entityValue":"i-0abc"}`), want: Message{Kind: interruption.NoOp}},
		"an account notice":               {body: healthBody("EC2", "accountNotification", `{"entityValue":"i-0abc"}`), want: Message{Kind: interruption.NoOp}},
		"a scheduled change of a volume":  {body: healthBody("EC2", "scheduledChange", `{"entityValue":"vol-1"}`), want: Message{Kind: interruption.NoOp}},
		"a known type of another source":  {body: event0("aws.health", spotWarning, `{"instance-id":"i-0abc"}`), want: Message{Kind: interruption.NoOp}},
		"another version":                 {body: strings.Replace(spotBody("i-0abc"), `"version":"0"`, `"version":"1"`, 1), want: Message{Kind: interruption.NoOp}},
		"an event of another client":      {body: event0("aws.s3", "Object Created", `{"bucket":"x"}`), want: Message{Kind: interruption.NoOp}},
		"an object that is no event":      {body: `{"Type":"Notification","Message":"{}"}`, want: Message{Kind: interruption.NoOp}},
		"a time that cannot be read":      {body: strings.Replace(spotBody("i-0abc"), "2030-01-01T00:00:00Z", "today", 1), want: Message{Kind: interruption.SpotInterrupted, Instances: []string{"i-0abc"}}},
		"H01 empty":                       {body: "", bad: true},
		"H01 no JSON":                     {body: "interruption!", bad: true},
		"H01 cut off":                     {body: spotBody("i-0abc")[:80], bad: true},
		"H01 an array":                    {body: `[1,2]`, bad: true},
		"H01 a number as version":         {body: `{"version":0}`, bad: true},
		"H01 huge":                        {body: `{"version":"0","x":"` + strings.Repeat("a", 1<<20) + `"}`, bad: true},
		"H01 deep":                        {body: strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), bad: true},
		"H01 no detail":                   {body: `{"version":"0","source":"aws.ec2","detail-type":"` + spotWarning + `"}`, bad: true},
		"H01 a detail of another shape":   {body: event0("aws.ec2", spotWarning, `"i-0abc"`), bad: true},
		"H01 no instance":                 {body: event0("aws.ec2", spotWarning, `{}`), bad: true},
		"H01 something else as instance":  {body: event0("aws.ec2", spotWarning, `{"instance-id":"vol-1"}`), bad: true},
		"H01 null is an object, somehow":  {body: "null", want: Message{Kind: interruption.NoOp}},
		"members are matched in any case": {body: strings.Replace(spotBody("i-0abc"), `"source"`, `"Source"`, 1), want: one(interruption.SpotInterrupted)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.body)
			if (err != nil) != tc.bad {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// H01: whatever comes, reading ends with a response that makes sense.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `{"version":"0"}`, spotBody("i-0abc"), stateBody("i-1", "terminated"),
		event0("aws.health", health, `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}`),
		event0("aws.ec2", spotWarning, `{"instance-id":null}`), event0("aws.ec2", rebalance, `{"instance-id":["i-1"]}`),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		m, err := Parse(body)
		switch {
		case err != nil && (m.Kind != "" || m.Instances != nil):
			t.Errorf("a response beside an error: %+v", m)
		case err == nil && (m.Kind == interruption.NoOp) != (len(m.Instances) == 0):
			t.Errorf("%s with instances %v", m.Kind, m.Instances)
		}
		for _, id := range m.Instances {
			if !strings.HasPrefix(id, "i-") || strings.Contains(id, "/") {
				t.Errorf("%q is no instance", id)
			}
		}
	})
}

// Users get an event for everything that is done, and for the recommendation that is not followed.
func TestEveryKindHasAText(t *testing.T) {
	t.Parallel()
	for _, kind := range []interruption.Kind{
		interruption.SpotInterrupted, interruption.RebalanceRecommended, interruption.InstanceStopped, interruption.InstanceTerminated, interruption.ScheduledChange,
		interruption.ReservationInterrupted, interruption.InstanceStatus, interruption.SystemStatus, interruption.EventStatus,
	} {
		if notice(kind, "i-1").Text == "" {
			t.Errorf("%s has no text", kind)
		}
	}
	if text := notice(interruption.NoOp, "i-1").Text; text != "" {
		t.Errorf("nothing happened, but users read %q", text)
	}
}
