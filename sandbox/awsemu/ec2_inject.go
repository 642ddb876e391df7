package awsemu

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// injection is the body of the controls that do something to instances.
type injection struct {
	Instance string            `json:"instance,omitempty"`
	Selector *instanceSelector `json:"selector,omitempty"`
	Notice   *Duration         `json:"notice,omitempty"` // interrupt and reservation-interrupt; absent: as in timing

	EventTypeCode string    `json:"eventTypeCode,omitempty"` // health
	StartTime     time.Time `json:"startTime,omitzero"`      // health

	StatusCheck *StatusCheck `json:"check,omitempty"` // status-check; absent: everything is ok again
}

// instanceSelector chooses instances; empty members match all.
type instanceSelector struct {
	NodePool     string `json:"nodepool,omitempty"`
	Type         string `json:"type,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
}

func (s instanceSelector) matches(i *Instance) bool {
	is := func(want, have string) bool { return want == "" || ec2Wildcard(want, have) }
	return is(s.NodePool, i.Tags["karpenter.sh/nodepool"]) && is(s.Type, i.Type) && is(s.Zone, i.Zone) && is(s.CapacityType, i.CapacityType)
}

// registerEC2Injections adds the controls that do something to instances. All return the ids.
func (e *Emulator) registerEC2Injections() {
	for name, run := range map[string]func(*controlRequest, injection, *Instance) error{
		"interrupt": e.injectInterruption,
		"rebalance": func(r *controlRequest, _ injection, i *Instance) error {
			e.publishEvent(r.now, EventRebalance, []string{e.accountARN("ec2", "instance/"+i.ID)}, map[string]string{"instance-id": i.ID})
			return nil
		},
		"health":                e.injectHealth,
		"reservation-interrupt": e.injectReservationInterruption,
		"stop":                  func(r *controlRequest, _ injection, i *Instance) error { e.stop(r.now, i); return nil },
		"kill": func(r *controlRequest, _ injection, i *Instance) error {
			if i.State != stateShuttingDown {
				i.setStateReason(r.now, "Server.InternalError", "Server.InternalError: the host failed")
			}
			e.terminateInstance(r.now, i)
			return nil
		},
		"status-check": e.injectStatus,
	} {
		e.controls[name] = control{http.MethodPost: func(r *controlRequest) (any, error) { return e.injectFault(r, run) }}
	}
	e.controls["status-check"][http.MethodPut] = e.controls["status-check"][http.MethodPost]
	e.controls["status-check"][http.MethodGet] = func(*controlRequest) (any, error) { return e.ec2().StatusChecks, nil }
	e.controls["status-check"][http.MethodDelete] = func(*controlRequest) (any, error) {
		clear(e.ec2().StatusChecks)
		return nil, nil
	}
}

// injectFault runs an injection on the instance that the body names, or on all that it selects.
func (e *Emulator) injectFault(r *controlRequest, run func(*controlRequest, injection, *Instance) error) (any, error) {
	var body injection
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	if (body.Instance == "") == (body.Selector == nil) {
		return nil, fmt.Errorf("want either instance or selector")
	}
	var targets []*Instance
	if body.Instance != "" {
		i := e.ec2().Instances[body.Instance]
		if i == nil || !i.holdsResources() {
			return nil, fmt.Errorf("instance: %q is not alive", body.Instance)
		}
		targets = []*Instance{i}
	} else {
		for _, i := range e.ec2().Instances {
			if i.holdsResources() && body.Selector.matches(i) {
				targets = append(targets, i)
			}
		}
		sortInstances(targets)
	}
	ids := []string{}
	for _, i := range targets {
		if err := run(r, body, i); err != nil {
			if body.Selector != nil {
				continue // selected by accident, such as on-demand instances for an interruption
			}
			return nil, err
		}
		ids = append(ids, i.ID)
	}
	return map[string][]string{"instances": ids}, nil
}

// noticeEnd is when the notice of an injection ends.
func (e *Emulator) noticeEnd(now time.Time, body injection) time.Time {
	notice := e.ec2().Timing.Notice
	if body.Notice != nil {
		notice = *body.Notice
	}
	return now.Add(time.Duration(e.scaledDuration(notice)))
}

func (e *Emulator) injectInterruption(r *controlRequest, body injection, i *Instance) error {
	if i.CapacityType != capacitySpot {
		return fmt.Errorf("instance: %s is no spot instance", i.ID)
	}
	e.sendSpotWarning(r.now, i, e.noticeEnd(r.now, body))
	return nil
}

func (e *Emulator) injectReservationInterruption(r *controlRequest, body injection, i *Instance) error {
	if i.Reservation == "" {
		return fmt.Errorf("instance: %s is in no capacity reservation", i.ID)
	}
	e.interruptReserved(r.now, i, e.noticeEnd(r.now, body))
	return nil
}

// interruptReserved announces the end of an instance whose capacity is reclaimed.
func (e *Emulator) interruptReserved(now time.Time, i *Instance, end time.Time) {
	e.publishEvent(now, EventReservationInterruption, []string{e.accountARN("ec2", "instance/"+i.ID)},
		map[string]string{"instance-id": i.ID, "instance-action": "terminate", "capacity-reservation-id": i.Reservation})
	i.Interrupt = end
}

func (e *Emulator) injectHealth(r *controlRequest, body injection, i *Instance) error {
	code := cmp.Or(body.EventTypeCode, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED")
	start := body.StartTime
	if start.IsZero() {
		start = r.now.Add(24 * time.Hour)
	}
	format := func(t time.Time) string { return t.UTC().Format(time.RFC1123) }
	e.publishEvent(r.now, EventHealth, []string{i.ID}, map[string]any{
		"eventArn": "arn:aws:health:" + e.fixture.Region + "::event/EC2/" + code + "/" + stableID("", i.ID+code),
		"service":  "EC2", "eventTypeCode": code, "eventTypeCategory": "scheduledChange",
		"startTime": format(start), "endTime": format(start.Add(time.Hour)),
		"eventDescription": []map[string]string{{"language": "en_US", "latestDescription": "EC2 has scheduled a change for the instance " + i.ID}},
		"affectedEntities": []map[string]string{{"entityValue": i.ID}},
	})
	return nil
}

func (e *Emulator) injectStatus(r *controlRequest, body injection, i *Instance) error {
	if body.StatusCheck == nil {
		delete(e.ec2().StatusChecks, i.ID)
		return nil
	}
	check := *body.StatusCheck
	if check.ImpairedSince.IsZero() && (check.Instance == "impaired" || check.System == "impaired" || check.AttachedEBS == "impaired") {
		check.ImpairedSince = r.now
	}
	e.ec2().StatusChecks[i.ID] = &check
	return nil
}
