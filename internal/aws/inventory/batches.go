package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/batch"
)

// alone is how many ids are requested one by one at a time, after the response to their batch did not contain them.
const alone = 10

// describeAll requests many instances in one call. One id that EC2 does not know fails the whole call. EC2 names such
// ids, so the others are requested together once more, and only those still without a response one by one. A batch
// that failed for another reason, such as throttling, fails as a whole: requesting each id alone would make that
// worse (E08).
func (i *Inventory) describeAll(ctx context.Context, ids []string) []batch.Result[Instance] {
	var found map[string]Instance
	var err error
	if unique := distinct(ids); len(unique) > 1 {
		found, err = i.describeOnce(ctx, unique)
	}
	if named := idsIn(err); awserr.NotFound(err) && len(named) > 0 {
		rest := slices.DeleteFunc(distinct(ids), func(id string) bool { return slices.Contains(named, id) })
		if len(rest) > 0 {
			found, err = i.describeOnce(ctx, rest)
		}
	}
	if err != nil && !awserr.Refused(err) {
		return resultForEach(ids, func(string) batch.Result[Instance] { return batch.Result[Instance]{Err: err} })
	}
	missing := slices.DeleteFunc(distinct(ids), func(id string) bool { _, described := found[id]; return described })
	single := oneByOne(missing, func(id string) batch.Result[Instance] {
		response, err := i.describeOnce(ctx, []string{id})
		instance, described := response[id]
		if err == nil && !described {
			err = unknownID(id)
		}
		return batch.Result[Instance]{Value: instance, Err: err}
	})
	return resultForEach(ids, func(id string) batch.Result[Instance] {
		if instance, described := found[id]; described {
			return batch.Result[Instance]{Value: instance}
		}
		return single[id]
	})
}

func (i *Inventory) describeOnce(ctx context.Context, ids []string) (map[string]Instance, error) {
	page, err := i.o.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	if err != nil {
		return nil, err
	}
	found := make(map[string]Instance, len(ids))
	for _, instance := range i.instances(page) {
		found[instance.ID] = instance
	}
	return found, nil
}

// terminateAll terminates many instances in one call and returns their states. EC2 refuses the whole call for one
// invalid id; instances that it does not report as terminating are tried one by one.
func (i *Inventory) terminateAll(ctx context.Context, ids []string) []batch.Result[string] {
	var states map[string]string
	var err error
	if unique := distinct(ids); len(unique) > 1 {
		states, err = i.terminateOnce(ctx, unique)
	}
	if err != nil && !awserr.Refused(err) {
		return resultForEach(ids, func(string) batch.Result[string] { return batch.Result[string]{Err: err} })
	}
	ending := func(state string) bool { return state == StateShuttingDown || state == StateTerminated }
	missing := slices.DeleteFunc(distinct(ids), func(id string) bool { return ending(states[id]) })
	single := oneByOne(missing, func(id string) batch.Result[string] {
		states, err := i.terminateOnce(ctx, []string{id})
		if err == nil && !ending(states[id]) {
			err = &smithy.GenericAPIError{Code: "NotTerminating", Message: "EC2 accepted the call but does not report " + id + " as shutting down"}
		}
		return batch.Result[string]{Value: states[id], Err: err}
	})
	return resultForEach(ids, func(id string) batch.Result[string] {
		if state := states[id]; ending(state) {
			return batch.Result[string]{Value: state}
		}
		return single[id]
	})
}

func (i *Inventory) terminateOnce(ctx context.Context, ids []string) (map[string]string, error) {
	out, err := i.o.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err != nil {
		return nil, err
	}
	states := make(map[string]string, len(ids))
	for _, change := range out.TerminatingInstances {
		if change.CurrentState != nil {
			states[text(change.InstanceId)] = string(change.CurrentState.Name)
		}
	}
	return states, nil
}

// oneByOne runs a call for each id, a few at a time.
func oneByOne[R any](missing []string, call func(id string) batch.Result[R]) map[string]batch.Result[R] {
	results := make(map[string]batch.Result[R], len(missing))
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, alone)
	for _, id := range missing {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			result := call(id)
			mu.Lock()
			defer mu.Unlock()
			results[id] = result
		})
	}
	wait.Wait()
	return results
}

func resultForEach[R any](ids []string, respond func(id string) batch.Result[R]) []batch.Result[R] {
	out := make([]batch.Result[R], len(ids))
	for n, id := range ids {
		out[n] = respond(id)
	}
	return out
}

func distinct(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// idsIn are the instance ids that an error names.
func idsIn(err error) []string {
	if err == nil {
		return nil
	}
	var ids []string
	for _, word := range strings.FieldsFunc(awserr.Text(err), func(r rune) bool { return strings.ContainsRune(" ,'\"[]().:", r) }) {
		if strings.HasPrefix(word, "i-") {
			ids = append(ids, word)
		}
	}
	return ids
}

// unknownID is the error code for an id that EC2 does not know; an empty response means the same.
func unknownID(id string) error {
	return &smithy.GenericAPIError{Code: "InvalidInstanceID.NotFound", Message: "the response does not contain " + id}
}
