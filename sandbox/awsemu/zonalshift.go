package awsemu

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Shifts is the zonal shifts of the cluster. It is a part of EKSState.
type Shifts struct {
	Enabled bool    `json:"enabled"` // zonal shift knows the cluster
	Active  []Shift `json:"active"`
}

// Shift moves traffic away from a zone until it expires.
type Shift struct {
	ID       string    `json:"id"`
	AwayFrom string    `json:"awayFrom"` // zone id; the control also takes a zone name
	Start    time.Time `json:"start,omitzero"`
	Expiry   time.Time `json:"expiry,omitzero"`
	For      Duration  `json:"for,omitempty"` // instead of expiry, from now
	Status   string    `json:"status"`
	Comment  string    `json:"comment,omitempty"`
}

// Statuses of a shift.
const (
	ShiftApplied    = "APPLIED"
	ShiftNotApplied = "NOT_APPLIED"
)

func (e *Emulator) registerZonalShift() {
	e.register(wire.ZonalShift, "GetManagedResource", e.getManagedResource)
	e.controls["shifts"] = control{
		http.MethodGet: func(*controlRequest) (any, error) { return e.eksState().Shifts, nil },
		http.MethodPut: e.setShifts,
	}
}

// getManagedResource lists the shifts that have not expired by the emulated clock.
func (e *Emulator) getManagedResource(c *call) (any, error) {
	arn, shifts := strings.TrimPrefix(c.Path, "/managedresources/"), e.eksState().Shifts
	if !shifts.Enabled || arn != e.clusterARN() {
		return nil, wire.Errorf("ResourceNotFoundException", "The resource %s is not managed by zonal shift.", arn)
	}
	weights := map[string]float64{}
	for _, zone := range e.fixture.Zones {
		weights[zone.ID] = 1
	}
	active := []map[string]any{}
	for _, s := range shifts.Active {
		if !c.now.Before(s.Expiry) {
			continue
		}
		if s.Status == ShiftApplied {
			weights[s.AwayFrom] = 0
		}
		active = append(active, map[string]any{
			"zonalShiftId": s.ID, "awayFrom": s.AwayFrom, "appliedStatus": s.Status, "comment": s.Comment, "resourceIdentifier": arn,
			"startTime": wire.Epoch(s.Start), "expiryTime": wire.Epoch(s.Expiry), "shiftType": "ZONAL_SHIFT",
		})
	}
	return map[string]any{
		"arn": arn, "name": e.eksState().Cluster.Name, "appliedWeights": weights, "zonalShifts": active, "autoshifts": []string{},
		"zonalAutoshiftStatus": "DISABLED",
	}, nil
}

// setShifts replaces the shifts.
func (e *Emulator) setShifts(r *controlRequest) (any, error) {
	shifts := Shifts{Enabled: true}
	if err := r.decode(&shifts); err != nil {
		return nil, err
	}
	for i := range shifts.Active {
		if err := e.completeShift(r.now, &shifts.Active[i]); err != nil {
			return nil, fmt.Errorf("active[%d]: %w", i, err)
		}
	}
	e.eksState().Shifts = shifts
	return nil, nil
}

func (e *Emulator) completeShift(now time.Time, s *Shift) error {
	at := slices.IndexFunc(e.fixture.Zones, func(z Zone) bool { return z.ID == s.AwayFrom || z.Name == s.AwayFrom })
	if at < 0 {
		return fmt.Errorf("awayFrom: there is no zone %q", s.AwayFrom)
	}
	s.AwayFrom = e.fixture.Zones[at].ID
	if s.Status == "" {
		s.Status = ShiftApplied
	}
	if s.Status != ShiftApplied && s.Status != ShiftNotApplied {
		return fmt.Errorf("status: %q is not known; want %s or %s", s.Status, ShiftApplied, ShiftNotApplied)
	}
	if s.Start.IsZero() {
		s.Start = now
	}
	if s.Expiry.IsZero() {
		if s.For <= 0 {
			return fmt.Errorf("expiry: is required, or for, such as 1h")
		}
		s.Expiry = now.Add(time.Duration(s.For))
	}
	s.For = 0
	if s.ID == "" {
		s.ID = e.messageID()
	}
	return nil
}
