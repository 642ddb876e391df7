package zonalshift

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	arctypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// PollEvery is how often Poll is to run, as `zonalshift`.
const PollEvery = 30 * time.Second

// API is the part of the recovery controller's API that is used.
type API interface {
	GetManagedResource(context.Context, *arczonalshift.GetManagedResourceInput, ...func(*arczonalshift.Options)) (*arczonalshift.GetManagedResourceOutput, error)
}

// emitter sends events about objects.
type emitter interface {
	Emit(obj client.Object, events ...event.Event)
}

// Options are what Shifts works with.
type Options struct {
	Enabled bool // setting enable-zonal-shift
	API     API
	ARN     func(ctx context.Context) (string, error) // of the cluster
	Objects client.Reader
	Events  emitter
	Now     func() time.Time
}

// Shifts knows the zones that are shifted away. It is safe for concurrent use.
type Shifts struct {
	o Options

	mu     sync.RWMutex
	ends   map[string]time.Time // by zone id; zero: open-ended
	active map[string]bool      // what was reported to users
}

// New returns Shifts that knows of none yet.
func New(o Options) *Shifts {
	return &Shifts{o: o, ends: map[string]time.Time{}, active: map[string]bool{}}
}

// Shifted reports whether traffic is shifted away from a zone.
func (s *Shifts) Shifted(zoneID string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	end, found := s.ends[zoneID]
	return found && (end.IsZero() || s.o.Now().Before(end))
}

// Poll requests which zones are shifted away and reports changes on the pools. After an error the last response is
// used, until its shifts end.
func (s *Shifts) Poll(ctx context.Context) error {
	if !s.o.Enabled {
		return nil
	}
	failure := s.refresh(ctx)
	began, ended := s.unreportedChanges()
	for _, zone := range began {
		log.FromContext(ctx).Info("a zone is shifted away", "zone-id", zone)
	}
	for _, zone := range ended {
		log.FromContext(ctx).Info("a zone is not shifted away any more", "zone-id", zone)
	}
	if len(began)+len(ended) == 0 {
		return failure
	}
	return errors.Join(failure, s.emitChanges(ctx, began, ended))
}

func (s *Shifts) refresh(ctx context.Context) error {
	arn, err := s.o.ARN(ctx)
	if err != nil {
		return fmt.Errorf("find the ARN of the cluster: %w", err)
	}
	response, err := s.o.API.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &arn})
	if _, none := errors.AsType[*arctypes.ResourceNotFoundException](err); none {
		response, err = &arczonalshift.GetManagedResourceOutput{}, nil // the cluster is not enrolled
	}
	if err != nil {
		return fmt.Errorf("get zonal shifts of %s: %w", arn, err)
	}
	ends := shifts(response)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = ends
	return nil
}

// shifts returns the zones that are shifted away by a response, and until when. Shifts that AWS starts itself have no
// end.
func shifts(response *arczonalshift.GetManagedResourceOutput) map[string]time.Time {
	ends := map[string]time.Time{}
	later := func(zone string, end time.Time) {
		if have, found := ends[zone]; !found || !have.IsZero() && (end.IsZero() || end.After(have)) {
			ends[zone] = end
		}
	}
	for _, shift := range response.ZonalShifts {
		if shift.AppliedStatus == arctypes.AppliedStatusApplied && shift.AwayFrom != nil && shift.ExpiryTime != nil {
			later(*shift.AwayFrom, *shift.ExpiryTime)
		}
	}
	for _, shift := range response.Autoshifts {
		if shift.AppliedStatus == arctypes.AutoshiftAppliedStatusApplied && shift.AwayFrom != nil {
			later(*shift.AwayFrom, time.Time{})
		}
	}
	return ends
}

// unreportedChanges are the zones whose state was not reported to users yet.
func (s *Shifts) unreportedChanges() (began, ended []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, active := s.o.Now(), map[string]bool{}
	for zone, end := range s.ends {
		if end.IsZero() || now.Before(end) {
			active[zone] = true
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(active)) {
		if !s.active[zone] {
			began = append(began, zone)
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(s.active)) {
		if !active[zone] {
			ended = append(ended, zone)
		}
	}
	s.active = active
	return began, ended
}

func (s *Shifts) emitChanges(ctx context.Context, began, ended []string) error {
	pools, classes := &karpv1.NodePoolList{}, &awsv1.EC2NodeClassList{}
	if err := s.o.Objects.List(ctx, pools); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	if err := s.o.Objects.List(ctx, classes); err != nil {
		return fmt.Errorf("list EC2NodeClasses: %w", err)
	}
	for i := range pools.Items {
		pool := &pools.Items[i]
		zones := Zones(pool, classes.Items)
		for _, zone := range began {
			if name, usable := zones[zone]; usable {
				s.o.Events.Emit(pool, event.Event{Reason: event.ZonalShiftActive, Key: zone, Text: "Zone " + name + " (" + zone + ") is shifted away; nothing is launched or ended there until the shift is over"})
			}
		}
		for _, zone := range ended {
			if name, usable := zones[zone]; usable {
				s.o.Events.Emit(pool, event.Event{Reason: event.ZonalShiftCleared, Key: zone, Text: "The shift away from zone " + name + " (" + zone + ") is over"})
			}
		}
	}
	return nil
}

// Zones are the zones that a pool can use, name by id: those of its class's subnets that its
// requirements allow.
func Zones(pool *karpv1.NodePool, classes []awsv1.EC2NodeClass) map[string]string {
	effective, _ := pool.Effective(false)
	spec := effective.Spec.Template.Spec
	needs, _ := reqs.FromEntries(karpv1.Entries(spec.Requirements), awsv1.Vocabulary())
	zones := map[string]string{}
	for i := range classes {
		if spec.NodeClassRef.Group != awsv1.Group || spec.NodeClassRef.Name != classes[i].Name {
			continue
		}
		for _, subnet := range classes[i].Status.Subnets {
			if needs.Allows(corev1.LabelTopologyZone, subnet.Zone) && needs.Allows(awsv1.LabelZoneID, subnet.ZoneID) {
				zones[subnet.ZoneID] = subnet.Zone
			}
		}
	}
	return zones
}
