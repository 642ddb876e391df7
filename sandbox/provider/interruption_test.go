package provider

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/interrupt"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// lines is a logger that keeps its lines.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) newLogger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, args)
	}, funcr.Options{})
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.list {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// startReading reads the queue until stop is called.
func (l *awsEnv) startReading(r *registry) (said *lines, stop func()) {
	q := &interrupt.Queue{
		Name: queue, SQS: sqs.NewFromConfig(l.sdk), Actor: l.newActor(r), Instances: l.newInventory(), Cluster: cluster, Metrics: l.metrics, Now: l.currentTime,
	}
	said = &lines{}
	ctx, cancel := context.WithCancel(log.IntoContext(l.Context(), said.newLogger()))
	var running sync.WaitGroup
	running.Go(func() { _ = q.Start(ctx) })
	stop = func() { cancel(); running.Wait() }
	l.Cleanup(stop)
	return said, stop
}

// queuedMessages are the messages in the queue.
func (l *awsEnv) queuedMessages() []awsemu.Message {
	l.Helper()
	return decodeControl[map[string]awsemu.Queue](l, "queues")[queue].Messages
}

// purgeQueue empties the queue.
func (l *awsEnv) purgeQueue() {
	l.Helper()
	l.putControl("queues", `{"`+queue+`":null}`)
	l.putControl("queues", `{"`+queue+`":{}}`)
}

// read lets the queue be read until all messages of now are deleted.
func (l *awsEnv) read(r *registry) *lines {
	l.Helper()
	deleted := l.afterCalls("sqs:DeleteMessage", len(l.queuedMessages()))
	said, stop := l.startReading(r)
	l.wait("the deletion of all messages", deleted)
	stop()
	if left := l.queuedMessages(); len(left) > 0 {
		l.Errorf("messages are left: %+v", left)
	}
	return said
}

// value of a counter, summed up over what its labels do not fix.
func (l *awsEnv) value(c prometheus.Collector, labels map[string]string) float64 {
	l.Helper()
	found := make(chan prometheus.Metric, 1000)
	c.Collect(found)
	close(found)
	sum := 0.0
	for m := range found {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			l.Fatal(err)
		}
		have := map[string]string{}
		for _, pair := range out.Label {
			have[pair.GetName()] = pair.GetValue()
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return have[key] != labels[key] }) {
			sum += out.GetCounter().GetValue()
		}
	}
	return sum
}

// Every kind of message reaches the claim through EventBridge and SQS (AWS provider 7.1).
func TestEveryKindOfInterruption(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		control string // that makes it happen
		then    time.Duration
		want    []string
		kinds   map[string]float64
	}{
		"a spot interruption": {
			control: "interrupt", want: []string{"delete", "event SpotInterrupted", "event TerminatingOnInterruption", "spot lost m5.large " + zoneA},
			kinds: map[string]float64{"spot_interrupted": 1},
		},
		"a rebalance recommendation": {
			control: "rebalance", want: []string{"event SpotRebalanceRecommendation"}, kinds: map[string]float64{"rebalance_recommendation": 1},
		},
		"an instance that stops": {
			control: "stop", then: time.Minute, want: []string{"delete", "event InstanceStopping", "event InstanceStopping", "event TerminatingOnInterruption"},
			kinds: map[string]float64{"instance_stopped": 2},
		},
		"an instance that dies": {
			control: "kill", want: []string{"delete", "event InstanceTerminating", "event TerminatingOnInterruption"},
			kinds: map[string]float64{"instance_terminated": 1},
		},
		"announced maintenance": {
			control: "health", want: []string{"delete", "event InstanceUnhealthy", "event TerminatingOnInterruption"},
			kinds: map[string]float64{"scheduled_change": 1},
		},
		"a reservation that is taken back": {
			control: "reservation-interrupt",
			want:    []string{"delete", "event CapacityReservationInstanceInterrupted", "event TerminatingOnInterruption", "reservation lost cr-1"},
			kinds:   map[string]float64{"capacity_reservation_interrupted": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			id := l.launchInstances(1, spot, ownedTags())[0]
			if tc.control == "reservation-interrupt" {
				id = l.launchInstances(1, onDemand, ownedTags(), l.useReservation)[0]
			}
			l.advanceClock(10 * time.Second)
			l.purgeQueue() // of the news that it runs
			l.post(tc.control, `{"instance":"`+id+`"}`)
			l.advanceClock(tc.then)
			r := registryOf(id)
			l.read(r)
			want := tc.want
			if want[0] == "delete" {
				want[0] += " claim-" + id
			}
			if diff := cmp.Diff(sorted(want), r.sortedRecord()); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			for kind, count := range tc.kinds {
				if got := l.value(l.metrics.InterruptionReceived, map[string]string{"message_type": kind}); got != count {
					t.Errorf("%s was counted %v times, want %v", kind, got, count)
				}
			}
		})
	}
}

// useReservation launches into the reservation of the fixture.
func (l *awsEnv) useReservation(data *ec2types.RequestLaunchTemplateData) {
	for id, r := range decodeControl[map[string]awsemu.CapacityReservation](l, "reservations") {
		if r.InstanceType == "m5.large" {
			data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
				CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &id},
			}
		}
	}
}

// H01: what cannot be read is logged once and deleted; others are handled.
func TestFM_H01_MalformedMessages(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	id := l.launchInstances(1, spot, ownedTags())[0]
	l.purgeQueue()
	bodies := []string{`{`, `null`, `[]`, `"text"`, `{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":7}`, strings.Repeat("x", 200000)}
	for _, body := range bodies {
		l.post("message", body)
	}
	l.post("interrupt", `{"instance":"`+id+`"}`)
	r := registryOf(id)
	said := l.read(r)
	if n := r.count("delete claim-" + id); n != 1 {
		t.Errorf("the claim was deleted %d times, want once", n)
	}
	if got := l.value(l.metrics.InterruptionReceived, map[string]string{"message_type": "malformed"}); got < 4 {
		t.Errorf("%v malformed messages were counted", got)
	}
	if n := said.count("cannot be read"); float64(n) != l.value(l.metrics.InterruptionReceived, map[string]string{"message_type": "malformed"}) {
		t.Errorf("%d lines about malformed messages, want one for each", n)
	}
}

// H02: the same message five times is one deletion and one step of the counter.
func TestFM_H02_TheSameMessageFiveTimes(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	id := l.launchInstances(1, spot, ownedTags())[0]
	l.purgeQueue()
	l.putControl("queues", `{"`+queue+`":{"duplicates":4}}`)
	l.post("interrupt", `{"instance":"`+id+`"}`)
	if n := len(l.queuedMessages()); n != 5 {
		t.Fatalf("%d messages wait, want 5", n)
	}
	r := registryOf(id)
	l.read(r)
	if n := r.count("delete"); n != 1 {
		t.Errorf("%d deletions, want one", n)
	}
	if got := l.value(l.metrics.NodeClaimsDisrupted, map[string]string{"reason": "spot_interrupted"}); got != 1 {
		t.Errorf("%v disruptions were counted, want one", got)
	}
}

// H03: a warning that comes before the claim knows its instance is held for one round.
func TestFM_H03_AWarningBeforeTheClaim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		late bool
		want int
	}{
		"the claim comes meanwhile": {late: true, want: 1},
		"no claim ever comes":       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			id := l.launchInstances(1, spot, ownedTags())[0]
			l.advanceClock(10 * time.Second)
			l.purgeQueue()
			l.post("interrupt", `{"instance":"`+id+`"}`)
			r := registryOf()
			described, deleted := l.afterCalls("ec2:DescribeInstances", 1), l.afterCalls("sqs:DeleteMessage", 1)
			_, stop := l.startReading(r)
			l.wait("a look at the instance", described)
			if tc.late {
				r.add(id)
			}
			l.waitForPolling() // so that the first round is over
			if n := l.countCalls(wire.SQS, "DeleteMessage"); n != 0 {
				t.Errorf("%d messages were deleted before the second round", n)
			}
			l.advanceClock(21 * time.Second)
			l.wait("the second round", deleted)
			stop()
			if n := r.count("delete"); n != tc.want {
				t.Errorf("%d deletions, want %d", n, tc.want)
			}
		})
	}
}

// waitForPolling waits until a receive is on its way that has nothing to return.
func (l *awsEnv) waitForPolling() {
	l.Helper()
	l.waitUntil("waiting for messages", func() bool {
		return slices.ContainsFunc(l.callsOf(wire.SQS, "ReceiveMessage"), func(c awsemu.Call) bool { return !c.Done })
	})
}

// H04, H05: messages about instances that are gone, unmanaged or of another cluster are deleted, nothing
// is done, and a queue that two clusters share is said once.
func TestFM_H04_H05_MessagesAboutOthers(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	other := ownedTags()
	other["eks:eks-cluster-name"] = "other"
	foreign := l.launchInstances(2, spot, other)
	l.launchInstances(1, spot, nil)
	l.advanceClock(10 * time.Second)
	l.purgeQueue()
	l.post("interrupt", `{"selector":{}}`)
	l.post("message", `{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","time":"2029-12-31T23:50:00Z","detail":{"instance-id":"i-0123456789abcdef0","state":"terminated"}}`)
	l.post("message", `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{}}`)
	r := registryOf()
	said := l.read(r)
	if did := r.sortedRecord(); len(did) > 0 {
		t.Errorf("done: %v", did)
	}
	if n := said.count("another cluster"); n != 1 {
		t.Errorf("%d warnings about a shared queue for %d messages, want one", n, len(foreign))
	}
}

// H06, H07: a queue that is missing or may not be read is reported with what to do, at a slow pace, and
// read as soon as that works.
func TestFM_H06_H07_AQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil, repair func(*awsEnv)
		says          string
	}{
		"it does not exist": {
			spoil:  func(l *awsEnv) { l.putControl("queues", `{"`+queue+`":null}`) },
			repair: func(l *awsEnv) { l.putControl("queues", `{"`+queue+`":{}}`) },
			says:   "there is no queue",
		},
		"it may not be found": {
			spoil:  func(l *awsEnv) { l.denyAction("sqs:GetQueueUrl") },
			repair: func(l *awsEnv) { l.remove("permissions") },
			says:   "sqs:GetQueueUrl",
		},
		"it may not be read": {
			spoil:  func(l *awsEnv) { l.denyAction("sqs:ReceiveMessage") },
			repair: func(l *awsEnv) { l.remove("permissions") },
			says:   "sqs:ReceiveMessage",
		},
		"SQS fails": {
			spoil:  func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "sqs:*", Code: "InternalFailure", Status: 500}) },
			repair: func(l *awsEnv) { l.remove("faults") },
			says:   queue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			id := l.launchInstances(1, spot, ownedTags())[0]
			l.advanceClock(10 * time.Second)
			l.purgeQueue()
			tc.spoil(l)
			r, failed := registryOf(id), make(chan struct{})
			var once sync.Once
			l.Cleanup(l.emu.Watch(func(c awsemu.Call) {
				if c.Service == wire.SQS && c.Code != "" {
					once.Do(func() { close(failed) })
				}
			}))
			deleted := l.afterCalls("sqs:DeleteMessage", 1)
			said, stop := l.startReading(r)
			l.wait("a failed call", failed)
			if calls := l.countCalls(wire.SQS, ""); calls > 5 {
				t.Errorf("%d calls at once", calls)
			}
			tc.repair(l)
			l.post("interrupt", `{"instance":"`+id+`"}`)
			l.wait("the handling of the message", deleted)
			stop()
			if n := r.count("delete"); n != 1 {
				t.Errorf("%d deletions, want one", n)
			}
			if n := said.count(tc.says); n == 0 {
				t.Errorf("%q is never said: %q", tc.says, said.list)
			}
		})
	}
}

// H08: a message that could not be deleted comes again and changes nothing.
func TestFM_H08_DeletionOfAMessageFails(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	id := l.launchInstances(1, spot, ownedTags())[0]
	l.advanceClock(10 * time.Second)
	l.purgeQueue()
	l.injectFault(awsemu.Fault{Action: "sqs:DeleteMessage", Count: 3, Code: "InternalFailure", Status: 500})
	l.post("interrupt", `{"instance":"`+id+`"}`)
	r := registryOf(id)
	deleted := l.afterCalls("sqs:DeleteMessage", 1)
	_, stop := l.startReading(r)
	l.waitUntil("a failed deletion", func() bool { return l.countCalls(wire.SQS, "DeleteMessage") >= 3 })
	l.waitForPolling()
	l.advanceClock(21 * time.Second)
	l.wait("the second deletion", deleted)
	stop()
	if n := r.count("delete"); n != 1 {
		t.Errorf("%d deletions of the claim, want one", n)
	}
}

// H09: a thousand interruptions at a time reach their claims, each once.
func TestFM_H09_AThousandInterruptions(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.enlargeSubnets()
	ids := l.launchInstances(1000, spot, ownedTags())
	l.purgeQueue()
	l.post("interrupt", `{"selector":{"capacityType":"spot"}}`)
	r := registryOf(ids...)
	l.read(r)
	if n := r.count("delete"); n != len(ids) {
		t.Errorf("%d deletions, want %d", n, len(ids))
	}
	if receives := l.countCalls(wire.SQS, "ReceiveMessage"); receives > len(ids)/10+20 {
		t.Errorf("%d receives, want ten messages in each", receives)
	}
}

// H12: rebalance recommendations lead to events only, however many.
func TestFM_H12_AFloodOfRecommendations(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	ids := l.launchInstances(30, spot, ownedTags())
	l.purgeQueue()
	for range 3 {
		l.post("rebalance", `{"selector":{}}`)
	}
	r := registryOf(ids...)
	l.read(r)
	if n := r.count("delete"); n != 0 {
		t.Errorf("%d deletions", n)
	}
}

// waitUntil waits for something that no call of AWS announces.
func (l *awsEnv) waitUntil(what string, done func() bool) {
	l.Helper()
	deadline := time.After(3 * time.Minute)
	for !done() {
		select {
		case <-deadline:
			l.Fatalf("%s did not happen", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
