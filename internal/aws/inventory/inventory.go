package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/batch"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	idle        = 100 * time.Millisecond // a batch closes after this long without a new request
	longest     = time.Second            // and after this in any case
	most        = 500                    // ids in one call
	concurrency = 100                    // calls at a time
	pageSize    = 1000
)

// api is the part of EC2 that is used.
type api interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
	TerminateInstances(context.Context, *ec2.TerminateInstancesInput, ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
	RebootInstances(context.Context, *ec2.RebootInstancesInput, ...func(*ec2.Options)) (*ec2.RebootInstancesOutput, error)
}

// Options of an Inventory.
type Options struct {
	Started  func() time.Time // when this process began to act; nil: long ago
	EC2      api
	Cluster  string
	Reserved bool                     // gate ReservedCapacity
	Shifted  func(zoneID string) bool // whether a zone is shifted away; nil: none ever is
	Metrics  *metric.Set
	Now      func() time.Time

	// Ended is called once for an instance that existed and is confirmed to be terminated, with the time when it was
	// last seen. It must not call back. It may be nil.
	Ended func(instance Instance, seen time.Time)
}

// Inventory is safe for concurrent use. Its errors are *cloud.Error.
type Inventory struct {
	o         Options
	cache     *instanceCache
	describe  *batch.Batcher[string, Instance]
	terminate *batch.Batcher[string, string]
}

// New returns an Inventory that knows nothing yet.
func New(o Options) *Inventory {
	if o.Shifted == nil {
		o.Shifted = func(string) bool { return false }
	}
	if o.Ended == nil {
		o.Ended = func(Instance, time.Time) {}
	}
	if o.Started == nil {
		o.Started = func() time.Time { return time.Time{} }
	}
	i := &Inventory{o: o, cache: newInstanceCache(o.Ended)}
	one := func(string) string { return "" }
	i.describe = batch.New(batch.Options[string, Instance]{
		Name: "describe_instances", Idle: idle, Max: longest, MaxItems: most, Concurrency: concurrency,
		Bucket: one, Run: i.describeAll, Metrics: o.Metrics,
	})
	i.terminate = batch.New(batch.Options[string, string]{
		Name: "terminate_instances", Idle: idle, Max: longest, MaxItems: most, Concurrency: concurrency,
		Bucket: one, Run: i.terminateAll, Metrics: o.Metrics,
	})
	return i
}

// RecordLaunched stores an instance that was just launched, before EC2 lists it.
func (i *Inventory) RecordLaunched(instance Instance) { i.cache.store(instance, i.o.Now(), true) }

// Find returns an instance that exists, from the cache if it is there; NotFound once it has ended.
func (i *Inventory) Find(ctx context.Context, id string) (Instance, error) {
	found, known, over := i.cache.find(id)
	switch {
	case over:
		return Instance{}, notFoundError("find instance", id)
	case known:
		return found, nil
	}
	return i.Fresh(ctx, id)
}

// Fresh returns an instance that exists, as EC2 sees it now; NotFound once it is terminated. In a zone that is
// shifted away the cached instance is used (E19).
func (i *Inventory) Fresh(ctx context.Context, id string) (Instance, error) {
	const op = "describe instance"
	found, known, over := i.cache.find(id)
	switch {
	case over:
		return Instance{}, notFoundError(op, id)
	case known && i.o.Shifted(found.ZoneID):
		return found, nil
	}
	fresh, err := i.describe.Do(ctx, id)
	switch {
	case awserr.NotFound(err) && i.cache.launchedRecently(id, i.o.Now()):
		// We launched it: EC2 only does not list it yet. If it counted as terminated, it would be leaked (E01, G3).
		return Instance{}, &cloud.Error{Op: op, Message: fmt.Sprintf("EC2 does not show %s yet, which was launched a moment ago", id), Err: err}
	case awserr.NotFound(err) && !known && i.o.Now().Sub(i.o.Started()) < goneAfterLeading:
		// An earlier process may have launched it a moment before we began to lead (E01, G3).
		return Instance{}, &cloud.Error{Op: op, Message: fmt.Sprintf("EC2 does not show %s; whether it was launched a moment ago is not known until this process has led for %s", id, goneAfterLeading), Err: err}
	case awserr.NotFound(err):
		i.cache.deleteEntry(id)
		return Instance{}, notFoundError(op, id)
	case err != nil:
		return Instance{}, callError(op, id, err)
	}
	if fresh = i.cache.store(fresh, i.o.Now(), false); fresh.State == StateTerminated {
		return Instance{}, notFoundError(op, id)
	}
	return fresh, nil
}

// List returns every instance of this cluster that exists, and refreshes the cache with it. If any part of the
// response is missing it fails, and the cache is unchanged.
func (i *Inventory) List(ctx context.Context) ([]Instance, error) {
	begun := i.o.Now()
	input := &ec2.DescribeInstancesInput{
		MaxResults: new(int32(pageSize)),
		Filters: []ec2types.Filter{
			{Name: new("tag-key"), Values: []string{TagNodePool}},
			{Name: new("tag-key"), Values: []string{TagNodeClass}},
			{Name: new("tag:" + TagCluster), Values: []string{i.o.Cluster}},
			existingFilter(),
		},
	}
	var list []Instance
	for {
		page, err := i.o.EC2.DescribeInstances(ctx, input)
		if err != nil {
			return nil, callError("list instances", "", err)
		}
		list = append(list, i.instances(page)...)
		if text(page.NextToken) == "" {
			break
		}
		input.NextToken = page.NextToken
	}
	return i.cache.replaceAll(list, begun, i.o.Now(), func(kept Instance) bool { return i.o.Shifted(kept.ZoneID) }), nil
}

// Terminate requests the termination of an instance; NotFound once it is terminated. It is idempotent.
func (i *Inventory) Terminate(ctx context.Context, id string) error {
	const op = "terminate instance"
	found, err := i.Fresh(ctx, id)
	switch {
	case err != nil:
		return err
	case i.o.Shifted(found.ZoneID):
		return &cloud.Error{Op: op, Reason: "ZoneShifted", Message: fmt.Sprintf("%s stays for now: zone %s is shifted away", id, found.Zone)}
	case found.State == StateShuttingDown:
		return nil
	}
	state, err := i.terminate.Do(ctx, id)
	if err != nil {
		// Also if EC2 does not know it: a moment ago it did, and only the next list may say that it is gone (G3).
		i.o.Metrics.TerminationFailures.WithLabelValues(found.Zone, found.ZoneID).Inc()
		return callError(op, id, err)
	}
	found.State = state
	i.cache.store(found, i.o.Now(), false)
	return nil
}

// Reboot requests a reboot of an instance. A missing permission and an instance that EC2 does not know are final
// (V15-67).
func (i *Inventory) Reboot(ctx context.Context, id string) error {
	const op = "reboot instance"
	found, err := i.Fresh(ctx, id)
	switch {
	case err != nil:
		return err
	case i.o.Shifted(found.ZoneID):
		return &cloud.Error{Op: op, Message: fmt.Sprintf("%s is left alone for now: zone %s is shifted away", id, found.Zone)}
	case found.Terminating():
		return notFoundError(op, id)
	}
	_, err = i.o.EC2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}})
	switch {
	case err == nil:
		return nil
	case awserr.NotFound(err):
		return notFoundError(op, id)
	case slices.Contains([]string{"OperationNotPermitted", "UnsupportedOperation"}, awserr.Code(err)):
		return &cloud.Error{Kind: cloud.Invalid, Op: op + " " + id, Err: err}
	default:
		return callError(op, id, err)
	}
}

func (i *Inventory) instances(page *ec2.DescribeInstancesOutput) []Instance {
	var out []Instance
	for _, r := range page.Reservations {
		for _, instance := range r.Instances {
			out = append(out, read(instance, i.o.Reserved))
		}
	}
	return out
}

// existingFilter leaves out what has ended, which EC2 shows for about an hour.
func existingFilter() ec2types.Filter {
	return ec2types.Filter{Name: new("instance-state-name"), Values: []string{StatePending, StateRunning, StateStopping, StateStopped, StateShuttingDown}}
}

func notFoundError(op, id string) error {
	return &cloud.Error{Kind: cloud.NotFound, Op: op, Message: "instance " + id + " does not exist"}
}

// callError is an error that says nothing about whether the instance exists.
func callError(op, id string, err error) error {
	if already, ok := errors.AsType[*cloud.Error](err); ok {
		return already
	}
	if id != "" {
		op += " " + id
	}
	kind := awserr.Kind(err)
	if kind == cloud.NotFound || kind == cloud.NoCapacity {
		kind = cloud.Unknown
	}
	out := &cloud.Error{Kind: kind, Op: op, Err: err}
	if action := awserr.DeniedAction(err); kind == cloud.Denied && action != "" {
		out.Message = "the role of the controller may not call " + action + ": " + err.Error() // first, since conditions cut long messages
	}
	return out
}
