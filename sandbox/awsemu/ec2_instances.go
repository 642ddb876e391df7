package awsemu

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// instancesWithIDs finds instances that can be seen; any that cannot fails the whole call.
func (e *Emulator) instancesWithIDs(c *call, ids []string) ([]*Instance, error) {
	var list []*Instance
	var missing []string
	for _, id := range ids {
		if digits, ok := strings.CutPrefix(id, "i-"); !ok || digits == "" || strings.Trim(digits, "0123456789abcdef") != "" {
			return nil, wire.Errorf("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		}
		i := e.ec2().Instances[id]
		if i == nil || c.now.Before(i.Visible) {
			missing = append(missing, id)
		} else if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	switch len(missing) {
	case 0:
		return list, nil
	case 1:
		return nil, wire.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", missing[0])
	default:
		return nil, wire.Errorf("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(missing, ", "))
	}
}

// requestedInstances finds the instances of InstanceId.N, or all that can be seen.
func (e *Emulator) requestedInstances(c *call) ([]*Instance, error) {
	if ids := c.Form.Strings("InstanceId"); len(ids) > 0 {
		if c.Form.Has("MaxResults") {
			return nil, maxResultsWithIDs("instancesSet")
		}
		return e.instancesWithIDs(c, ids)
	}
	var list []*Instance
	for _, i := range e.ec2().Instances {
		if !c.now.Before(i.Visible) {
			list = append(list, i)
		}
	}
	return list, nil
}

type instancesResponse struct {
	Items []launchItem `xml:"reservationSet>item"`
	Next  string       `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeInstances(c *call) (any, error) {
	filters, err := ec2Filters(c, "instance-state-name", "instance-id", "instance-type", "availability-zone", "subnet-id", "vpc-id", "instance-lifecycle", "image-id", "private-dns-name")
	if err != nil {
		return nil, err
	}
	list, err := e.requestedInstances(c)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(i *Instance) bool {
		return !filters.matchTags(i.Tags, map[string]string{
			"instance-state-name": i.State, "instance-id": i.ID, "instance-type": i.Type, "availability-zone": i.Zone,
			"subnet-id": i.Subnet, "vpc-id": i.VPC, "instance-lifecycle": i.Lifecycle, "image-id": i.ImageID, "private-dns-name": i.PrivateDNS,
		})
	})
	fallback := 1000
	if c.Form.Has("InstanceId.1") {
		fallback = 0
	}
	page, next, err := ec2Page(c, list, func(i *Instance) string { return i.ID }, 1000, fallback)
	response := instancesResponse{Next: next}
	index := map[string]int{}
	for _, i := range page {
		at, known := index[i.ReservationID]
		if !known {
			at = len(response.Items)
			index[i.ReservationID] = at
			response.Items = append(response.Items, launchItem{ID: i.ReservationID, Owner: e.fixture.Account})
		}
		response.Items[at].Instances = append(response.Items[at].Instances, e.instanceItem(i))
	}
	return response, err
}

type stateChangeItem struct {
	ID       string    `xml:"instanceId"`
	Current  stateItem `xml:"currentState"`
	Previous stateItem `xml:"previousState"`
}

type stateChanges struct {
	Items []stateChangeItem `xml:"instancesSet>item"`
}

func (e *Emulator) terminateInstances(c *call) (any, error) {
	ids := c.Form.Strings("InstanceId")
	if len(ids) == 0 {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter InstanceId")
	}
	list, err := e.instancesWithIDs(c, ids)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if i.Protected && i.holdsResources() {
			return nil, wire.Errorf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
		}
	}
	return changeStates(list, func(i *Instance) { e.terminate(c.now, i, userShutdown, userShutdown+": User initiated shutdown") }), nil
}

// changeStates does something to instances and returns how their states changed.
func changeStates(list []*Instance, change func(*Instance)) stateChanges {
	var response stateChanges
	for _, i := range list {
		before := i.State
		change(i)
		response.Items = append(response.Items, stateChangeItem{ID: i.ID, Previous: stateItemOf(before), Current: stateItemOf(i.State)})
	}
	return response
}

func (e *Emulator) stopInstances(c *call) (any, error) {
	list, err := e.instancesWithIDs(c, c.Form.Strings("InstanceId"))
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if i.Lifecycle != "" {
			return nil, wire.Errorf("UnsupportedOperation", "You can't stop the instance '%s' because it was bought as %s for one time.", i.ID, i.Lifecycle)
		}
		if i.State == stateShuttingDown || !i.holdsResources() {
			return nil, wrongState(i, "stopped")
		}
	}
	return changeStates(list, func(i *Instance) { e.stop(c.now, i) }), nil
}

func (e *Emulator) startInstances(c *call) (any, error) {
	list, err := e.instancesWithIDs(c, c.Form.Strings("InstanceId"))
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if i.State != stateStopped && i.State != stateRunning && i.State != statePending {
			return nil, wrongState(i, "started")
		}
	}
	return changeStates(list, func(i *Instance) {
		if i.State == stateStopped {
			e.start(c.now, i)
		}
	}), nil
}

func wrongState(i *Instance, done string) error {
	return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s: it is %s.", i.ID, done, i.State)
}

type returnResponse struct {
	Return bool `xml:"return"`
}

func (e *Emulator) rebootInstances(c *call) (any, error) {
	list, err := e.instancesWithIDs(c, c.Form.Strings("InstanceId"))
	if err != nil {
		return returnResponse{}, err
	}
	for _, i := range list {
		if i.State == stateRunning { // EC2 accepts the others, too, and does nothing
			i.Rebooted = c.now
		}
	}
	return returnResponse{Return: true}, nil
}

// sortInstances orders instances by id.
func sortInstances(list []*Instance) {
	slices.SortFunc(list, func(a, b *Instance) int { return cmp.Compare(a.ID, b.ID) })
}
