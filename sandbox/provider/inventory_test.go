package provider

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

const (
	spot     = ec2types.DefaultTargetCapacityTypeSpot
	onDemand = ec2types.DefaultTargetCapacityTypeOnDemand
)

func (l *awsEnv) newInventory() *inventory.Inventory {
	return inventory.New(inventory.Options{EC2: ec2.NewFromConfig(l.sdk), Cluster: cluster, Reserved: true, Metrics: l.metrics, Now: l.currentTime})
}

// callConcurrently requests many instances at once and returns the errors by id.
func callConcurrently(ids []string, query func(id string) error) map[string]error {
	var mu sync.Mutex
	var all sync.WaitGroup
	failures := map[string]error{}
	for _, id := range ids {
		all.Go(func() {
			err := query(id)
			mu.Lock()
			defer mu.Unlock()
			failures[id] = err
		})
	}
	all.Wait()
	return failures
}

// enlargeSubnets gives every subnet of the fixture room for thousands of instances.
func (l *awsEnv) enlargeSubnets() {
	l.Helper()
	for _, zone := range []string{zoneA, zoneB, zoneC} {
		l.putControl("subnets", fmt.Sprintf(`[{"id":%q,"free":20000}]`, l.subnet(zone)))
	}
}

// An instance is read as it was launched (AWS provider 6).
func TestInstancesAsTheyWereLaunched(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	reservation := ""
	for id, r := range decodeControl[map[string]awsemu.CapacityReservation](l, "reservations") {
		if r.InstanceType == "m5.large" {
			reservation = id
		}
	}
	into := func(data *ec2types.RequestLaunchTemplateData) {
		data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &reservation},
		}
	}
	for name, tc := range map[string]struct {
		id   string
		want inventory.Instance
	}{
		"spot":      {l.launchInstances(1, spot, ownedTags())[0], inventory.Instance{CapacityType: "spot"}},
		"on demand": {l.launchInstances(1, onDemand, ownedTags())[0], inventory.Instance{CapacityType: "on-demand"}},
		"reserved":  {l.launchInstances(1, onDemand, ownedTags(), into)[0], inventory.Instance{CapacityType: "reserved", Reservation: reservation}},
	} {
		want := tc.want
		want.ID, want.Type, want.Zone, want.ZoneID, want.State, want.Tags, want.Tenancy = tc.id, "m5.large", zoneA, "euw1-az1", inventory.StatePending, ownedTags(), "default"
		want.Subnet, want.Image, want.Groups, want.Profile, want.Launched = l.subnet(zoneA), l.imageOfParameter(al2023), l.securityGroupIDs(), "person", l.currentTime()
		got, err := l.newInventory().Find(t.Context(), tc.id)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for key := range got.Tags { // EC2 adds its own
			if strings.HasPrefix(key, "aws:") {
				delete(got.Tags, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// List returns what carries the tags of this cluster and has not ended (G2, E07).
func TestFM_E07_OnlyInstancesOfThisClusterAreListed(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	mine := l.launchInstances(2, onDemand, ownedTags())
	other, untagged := ownedTags(), ownedTags()
	other["eks:eks-cluster-name"] = "other"
	delete(untagged, "eks:eks-cluster-name")
	foreign, lost := l.launchInstances(1, onDemand, other), l.launchInstances(1, onDemand, untagged)
	ended := l.launchInstances(1, onDemand, ownedTags())
	l.post("kill", `{"instance":"`+ended[0]+`"}`)
	inv := l.newInventory()
	list, err := inv.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	if diff := cmp.Diff(sorted(mine), sorted(ids)); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	// The claim of an instance that lost its tag still finds it.
	for _, id := range append(foreign, lost...) {
		if _, err := inv.Find(t.Context(), id); err != nil {
			t.Errorf("find %s: %v", id, err)
		}
	}
}

// A list is complete over several pages, or it is an error.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.enlargeSubnets()
	want := l.launchInstances(1001, onDemand, ownedTags())
	inv := l.newInventory()
	list, err := inv.List(t.Context())
	if err != nil || len(list) != len(want) {
		t.Errorf("%d instances, %v; want %d", len(list), err, len(want))
	}
	if calls := l.countCalls(wire.EC2, "DescribeInstances"); calls != 2 {
		t.Errorf("%d calls, want a page of 1000 and the rest", calls)
	}
	l.putControl("throttle", `{"ec2:DescribeInstances":{"rate":0,"burst":1}}`)
	if list, err := inv.List(t.Context()); err == nil {
		t.Errorf("%d instances and no error although the second page was throttled", len(list))
	}
}

// A hundred questions at a time are one call; what is known is no call at all (AWS provider 5.5, 6).
func TestFindIsBatchedAndCached(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	ids, inv := l.launchInstances(100, onDemand, ownedTags()), l.newInventory()
	find := func(id string) error { _, err := inv.Find(t.Context(), id); return err }
	for range 2 {
		for id, err := range callConcurrently(ids, find) {
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if calls := l.countCalls(wire.EC2, "DescribeInstances"); calls != 1 {
		t.Errorf("%d calls for a hundred instances requested twice, want 1", calls)
	}
}

// More than fits in one call goes into several, and one unknown id spoils none of the others.
func TestFindWithUnknownIDs(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	ids, inv := l.launchInstances(99, onDemand, ownedTags()), l.newInventory()
	unknown := "i-0123456789abcdef0"
	failures := callConcurrently(append(slices.Clone(ids), unknown), func(id string) error { _, err := inv.Find(t.Context(), id); return err })
	for id, err := range failures {
		if (err != nil) != (id == unknown) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := failures[unknown]; !cloud.Is(err, cloud.NotFound) {
		t.Errorf("the unknown one: %v, want NotFound", err)
	}
	if calls := l.countCalls(wire.EC2, "DescribeInstances"); calls > 3 {
		t.Errorf("%d calls, want the batch, the rest of it, and the unknown one alone", calls)
	}
}

// E01: a new instance that EC2 does not show for a minute is not lost.
func TestFM_E01_ANewInstanceIsNotShownYet(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("lag", `{"instances":"60s"}`)
	id := l.launchInstances(1, onDemand, ownedTags())[0]
	inv := l.newInventory()
	inv.RecordLaunched(inventory.Instance{ID: id, Zone: zoneA, ZoneID: "euw1-az1", State: inventory.StatePending, Launched: l.currentTime()})
	for range 4 {
		if _, err := inv.Find(t.Context(), id); err != nil {
			t.Errorf("find: %v", err)
		}
		if _, err := inv.Fresh(t.Context(), id); err == nil || cloud.Is(err, cloud.NotFound) {
			t.Errorf("fresh: %v, want an error that does not say NotFound", err)
		}
		if err := inv.Terminate(t.Context(), id); err == nil || cloud.Is(err, cloud.NotFound) {
			t.Errorf("terminate: %v, want an error that does not say NotFound", err)
		}
		if _, err := inv.List(t.Context()); err != nil {
			t.Errorf("list: %v", err)
		}
		l.advanceClock(15 * time.Second)
	}
	if got, err := inv.Fresh(t.Context(), id); err != nil || got.State != inventory.StateRunning {
		t.Errorf("after a minute: %+v %v", got, err)
	}
}

// E02: EC2 accepts a termination and goes on showing a running instance. Nothing is gone before EC2 says
// so, and nothing fails.
func TestFM_E02_TerminateIsAcceptedAndTheInstanceRunsOn(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("timing", `{"shuttingDown":"2m"}`)
	id := l.launchInstances(1, onDemand, ownedTags())[0]
	l.advanceClock(10 * time.Second)
	stale := true
	l.sdk.HTTPClient = &http.Client{Transport: rewriting{whole{l.server.Client().Transport}, func(body []byte) []byte {
		if stale && bytes.Contains(body, []byte("<DescribeInstancesResponse")) {
			body = bytes.ReplaceAll(body, []byte("<code>32</code><name>shutting-down</name>"), []byte("<code>16</code><name>running</name>"))
		}
		return body
	}}}
	inv := l.newInventory()
	for range 12 {
		if err := inv.Terminate(t.Context(), id); err != nil {
			t.Fatalf("terminate: %v", err)
		}
		if got, err := inv.Fresh(t.Context(), id); err != nil || got.State != inventory.StateRunning {
			t.Fatalf("fresh: %+v %v, want it running", got, err)
		}
		l.advanceClock(9 * time.Second)
	}
	stale = false
	before := l.countCalls(wire.EC2, "TerminateInstances")
	if err := inv.Terminate(t.Context(), id); err != nil {
		t.Errorf("terminate while it shuts down: %v", err)
	}
	if after := l.countCalls(wire.EC2, "TerminateInstances"); after != before {
		t.Errorf("%d calls for an instance that shuts down, want none", after-before)
	}
	l.advanceClock(2 * time.Minute)
	if err := inv.Terminate(t.Context(), id); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("terminate once it ended: %v, want NotFound", err)
	}
	// E20: and it does not come back, whatever an old response says.
	if _, err := inv.Find(t.Context(), id); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("find once it ended: %v, want NotFound", err)
	}
}

// rewriting changes responses on their way.
type rewriting struct {
	next   http.RoundTripper
	change func([]byte) []byte
}

func (r rewriting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	body = r.change(body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// E03: not found once is not gone forever.
func TestFM_E03_NotFoundOnce(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	ids, inv := l.launchInstances(3, onDemand, ownedTags()), l.newInventory()
	l.injectFault(awsemu.Fault{Action: "ec2:DescribeInstances", Count: 1, Code: "InvalidInstanceID.NotFound", Message: "The instance ID '" + ids[0] + "' does not exist", Status: 400})
	for id, err := range callConcurrently(ids, func(id string) error { _, err := inv.Fresh(t.Context(), id); return err }) {
		if err != nil {
			t.Errorf("%s: %v; the one that was not found is to be requested alone", id, err)
		}
	}
	l.injectFault(awsemu.Fault{Action: "ec2:DescribeInstances", Count: 1, Code: "InvalidInstanceID.NotFound", Message: "The instance ID '" + ids[0] + "' does not exist", Status: 400})
	_, _ = inv.Fresh(t.Context(), ids[0])
	if got, err := inv.Fresh(t.Context(), ids[0]); err != nil || got.ID != ids[0] {
		t.Errorf("called again: %+v %v", got, err)
	}
}

// E08, E09, G3: whatever goes wrong with a call for minutes, nothing is ever taken for gone. What is
// cached is served, and calls stay few.
func TestFM_E08_E09_G3_TroubleIsNeverNotFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*awsEnv)
		kind  cloud.Kind
	}{
		"throttled":       {func(l *awsEnv) { l.throttleActions("ec2:*") }, cloud.Throttled},
		"broken":          {func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:*", Code: "InternalError", Status: 500}) }, cloud.Unknown},
		"unavailable":     {func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:*", Code: "Unavailable", Status: 503}) }, cloud.Unknown},
		"cut off":         {func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:*", Drop: awsemu.DropBefore}) }, cloud.Unknown},
		"half a response": {func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:*", Truncate: true}) }, cloud.Unknown},
		"denied":          {func(l *awsEnv) { l.denyAction("ec2:*") }, cloud.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			ids, inv := l.launchInstances(50, onDemand, ownedTags()), l.newInventory()
			known, unknown := ids[0], ids[1:]
			if _, err := inv.Find(t.Context(), known); err != nil {
				t.Fatal(err)
			}
			l.callControlAPI(http.MethodDelete, "calls", "")
			tc.spoil(l)
			const rounds = 5
			for range rounds {
				for id, err := range callConcurrently(unknown, func(id string) error { _, err := inv.Find(t.Context(), id); return err }) {
					if !cloud.Is(err, tc.kind) {
						t.Fatalf("find %s: %v, want kind %d", id, err, tc.kind)
					}
				}
				if err := inv.Terminate(t.Context(), known); !cloud.Is(err, tc.kind) {
					t.Fatalf("terminate: %v, want kind %d", err, tc.kind)
				}
				if _, err := inv.List(t.Context()); !cloud.Is(err, tc.kind) {
					t.Fatalf("list: %v, want kind %d", err, tc.kind)
				}
				if _, err := inv.Find(t.Context(), known); err != nil {
					t.Fatalf("find what is known: %v", err)
				}
				l.advanceClock(2 * time.Minute)
			}
			// One batch, one single and one list per round, each tried three times at most; a denial is
			// also requested alone.
			if calls := l.countCalls(wire.EC2, ""); calls > rounds*3*3 && tc.kind != cloud.Denied {
				t.Errorf("%d calls in %d rounds", calls, rounds)
			}
			l.remove("throttle")
			l.remove("faults")
			l.remove("permissions")
			for id, err := range callConcurrently(ids, func(id string) error { _, err := inv.Find(t.Context(), id); return err }) {
				if err != nil {
					t.Errorf("afterwards %s: %v", id, err)
				}
			}
		})
	}
}

// Fifty terminations are one call, and what is not ours to end does not keep the others alive.
func TestTerminationsAreBatched(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	mine, foreign := l.launchInstances(50, onDemand, ownedTags()), l.launchInstances(1, onDemand, nil)[0]
	inv := l.newInventory()
	for id, err := range callConcurrently(mine, func(id string) error { return inv.Terminate(t.Context(), id) }) {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if calls := l.countCalls(wire.EC2, "TerminateInstances"); calls != 1 {
		t.Errorf("%d calls for fifty instances, want 1", calls)
	}
	more := l.launchInstances(5, onDemand, ownedTags())
	for id, err := range callConcurrently(append(more, foreign), func(id string) error { return inv.Terminate(t.Context(), id) }) {
		if id == foreign && !cloud.Is(err, cloud.Denied) || id != foreign && err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range append(mine, more...) {
		if state := l.instanceByID(id).State; state != inventory.StateShuttingDown {
			t.Errorf("%s is %s", id, state)
		}
	}
	if state := l.instanceByID(foreign).State; state != inventory.StatePending {
		t.Errorf("the instance of another owner is %s", state)
	}
}
