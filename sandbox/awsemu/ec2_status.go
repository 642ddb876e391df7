package awsemu

import (
	"cmp"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type statusItem struct {
	ID       string      `xml:"instanceId"`
	Zone     string      `xml:"availabilityZone"`
	State    stateItem   `xml:"instanceState"`
	Instance checkItem   `xml:"instanceStatus"`
	System   checkItem   `xml:"systemStatus"`
	EBS      checkItem   `xml:"attachedEbsStatus"`
	Events   []eventItem `xml:"eventsSet>item"`
}

type checkItem struct {
	Status  string       `xml:"status"`
	Details []detailItem `xml:"details>item"`
}

type detailItem struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
	Since  string `xml:"impairedSince,omitempty"`
}

type eventItem struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description,omitempty"`
	NotBefore   string `xml:"notBefore,omitempty"`
	NotAfter    string `xml:"notAfter,omitempty"`
}

type statusesResponse struct {
	Items []statusItem `xml:"instanceStatusSet>item"`
	Next  string       `xml:"nextToken,omitempty"`
}

// describeInstanceStatus speaks of running instances only, unless all are requested.
func (e *Emulator) describeInstanceStatus(c *call) (any, error) {
	filters, err := untaggedFilters(c, "instance-status.status", "system-status.status", "attached-ebs-status.status", "event.code", "instance-state-name", "availability-zone")
	if err != nil {
		return nil, err
	}
	list, err := e.requestedInstances(c)
	if err != nil {
		return nil, err
	}
	var chosen []*Instance
	for _, i := range list {
		if i.State != stateRunning && !c.Form.Bool("IncludeAllInstances") {
			continue
		}
		check := e.statusCheck(i)
		codes := make([]string, 0, len(check.Events))
		for _, event := range check.Events {
			codes = append(codes, event.Code)
		}
		if filters.matchTags(i.Tags, map[string]string{
			"instance-status.status": check.Instance, "system-status.status": check.System, "attached-ebs-status.status": check.AttachedEBS,
			"event.code": strings.Join(codes, "\n"), "instance-state-name": i.State, "availability-zone": i.Zone,
		}) {
			chosen = append(chosen, i)
		}
	}
	page, next, err := ec2Page(c, chosen, func(i *Instance) string { return i.ID }, 1000, 0)
	response := statusesResponse{Next: next}
	for _, i := range page {
		response.Items = append(response.Items, statusItemOf(i, e.statusCheck(i)))
	}
	return response, err
}

// statusCheck is the state of the checks of an instance, complete.
func (e *Emulator) statusCheck(i *Instance) StatusCheck {
	usual := "ok"
	switch i.State {
	case statePending:
		usual = "initializing"
	case stateRunning:
	default:
		usual = "not-applicable"
	}
	var check StatusCheck
	if set := e.ec2().StatusChecks[i.ID]; set != nil {
		check = *set
	}
	check.Instance, check.System, check.AttachedEBS = cmp.Or(check.Instance, usual), cmp.Or(check.System, usual), cmp.Or(check.AttachedEBS, usual)
	return check
}

func statusItemOf(i *Instance, check StatusCheck) statusItem {
	render := func(status string) checkItem {
		detail := detailItem{Name: "reachability", Status: "passed"}
		switch status {
		case "impaired":
			detail.Status = "failed"
			if !check.ImpairedSince.IsZero() {
				detail.Since = wire.Time(check.ImpairedSince)
			}
		case "initializing":
			detail.Status = status
		}
		return checkItem{Status: status, Details: []detailItem{detail}}
	}
	item := statusItem{
		ID: i.ID, Zone: i.Zone, State: stateItemOf(i.State),
		Instance: render(check.Instance), System: render(check.System), EBS: render(check.AttachedEBS),
	}
	for _, event := range check.Events {
		one := eventItem{ID: stableID("instance-event-", i.ID+event.Code), Code: event.Code, Description: event.Description}
		if !event.NotBefore.IsZero() {
			one.NotBefore = wire.Time(event.NotBefore)
		}
		if !event.NotAfter.IsZero() {
			one.NotAfter = wire.Time(event.NotAfter)
		}
		item.Events = append(item.Events, one)
	}
	return item
}
