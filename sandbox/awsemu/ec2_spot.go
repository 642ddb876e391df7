package awsemu

import (
	"slices"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type spotRequestItem struct {
	ID       string         `xml:"spotInstanceRequestId"`
	State    string         `xml:"state"`
	Status   spotStatusItem `xml:"status"`
	Type     string         `xml:"type"`
	Instance string         `xml:"instanceId"`
	Zone     string         `xml:"launchedAvailabilityZone"`
	Created  string         `xml:"createTime"`
	Product  string         `xml:"productDescription"`
	Behavior string         `xml:"instanceInterruptionBehavior"`
	Launch   spotLaunchItem `xml:"launchSpecification"`
	Tags     []tagItem      `xml:"tagSet>item"`
}

type spotStatusItem struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
	Updated string `xml:"updateTime"`
}

type spotLaunchItem struct {
	ImageID string `xml:"imageId"`
	Type    string `xml:"instanceType"`
	Subnet  string `xml:"subnetId"`
}

type spotRequestsResponse struct {
	Items []spotRequestItem `xml:"spotInstanceRequestSet>item"`
	Next  string            `xml:"nextToken,omitempty"`
}

// spotState is what became of the request that an instance was launched for.
func (i *Instance) spotState() (state string, status spotStatusItem) {
	updated := wire.Time(i.Launched)
	switch {
	case i.State != stateShuttingDown && i.holdsResources() && i.SpotMarked:
		return "active", spotStatusItem{Code: "marked-for-termination", Message: "The Spot Instance is marked for termination.", Updated: updated}
	case i.State != stateShuttingDown && i.holdsResources():
		return "active", spotStatusItem{Code: "fulfilled", Message: "Your Spot request is fulfilled.", Updated: updated}
	case i.ReasonCode == spotTermination:
		return "closed", spotStatusItem{Code: "instance-terminated-no-capacity", Message: "Your instance was terminated because there is no longer enough Spot capacity.", Updated: updated}
	default:
		return "closed", spotStatusItem{Code: "instance-terminated-by-user", Message: "You terminated your instance.", Updated: updated}
	}
}

func (e *Emulator) describeSpotRequests(c *call) (any, error) {
	filters, err := ec2Filters(c, "spot-instance-request-id", "state", "status-code", "instance-id", "type", "launched-availability-zone", "launch.image-id", "launch.instance-type")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("SpotInstanceRequestId")
	var list []*Instance
	var found []string
	for _, i := range e.ec2().Instances {
		if i.SpotRequest == "" || c.now.Before(i.Visible) || !isSelected(ids, i.SpotRequest) {
			continue
		}
		found = append(found, i.SpotRequest)
		state, status := i.spotState()
		if filters.matchTags(i.SpotTags, map[string]string{
			"spot-instance-request-id": i.SpotRequest, "state": state, "status-code": status.Code, "instance-id": i.ID, "type": "one-time",
			"launched-availability-zone": i.Zone, "launch.image-id": i.ImageID, "launch.instance-type": i.Type,
		}) {
			list = append(list, i)
		}
	}
	for _, id := range ids {
		if !slices.Contains(found, id) {
			return nil, spotRequestNotFound(id)
		}
	}
	page, next, err := ec2Page(c, list, func(i *Instance) string { return i.SpotRequest }, 1000, 0)
	response := spotRequestsResponse{Next: next}
	for _, i := range page {
		state, status := i.spotState()
		product := "Linux/UNIX"
		if i.Platform == "windows" {
			product = "Windows"
		}
		response.Items = append(response.Items, spotRequestItem{
			ID: i.SpotRequest, State: state, Status: status, Type: "one-time", Instance: i.ID, Zone: i.Zone, Created: wire.Time(i.Launched), Product: product,
			Behavior: "terminate", Launch: spotLaunchItem{ImageID: i.ImageID, Type: i.Type, Subnet: i.Subnet}, Tags: tagItems(i.SpotTags),
		})
	}
	return response, err
}

func spotRequestNotFound(id string) error {
	return wire.Errorf("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist", id)
}

// spotRequestOf finds the instance of a spot request.
func (e *Emulator) spotRequestOf(c *call, id string) (*Instance, error) {
	for _, i := range e.ec2().Instances {
		if i.SpotRequest == id && !c.now.Before(i.Visible) {
			return i, nil
		}
	}
	return nil, spotRequestNotFound(id)
}
