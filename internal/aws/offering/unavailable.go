package offering

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// unavailableFor is how long an offering with insufficient capacity is not tried again.
const unavailableFor = 3 * time.Minute

// Group is a placement group, or one partition of it. The zero Group is none.
type Group struct{ ID, Partition string }

// mark is an offering with insufficient capacity; empty members stand for all.
type mark struct {
	capacityType, instanceType, zone string
	group                            Group
	subnet                           string
}

// Unavailable is a cache of offerings for which EC2 had insufficient capacity. Entries expire after three minutes. It
// is safe for concurrent use. Entries are dropped when the cache is read, so nothing runs in the background.
type Unavailable struct {
	Log   logr.Logger // gets every mark at debug level; callers log at the default level
	Risks *Risks      // counts what launches found unavailable; nil: nothing does

	now     func() time.Time
	mu      sync.RWMutex
	until   map[mark]time.Time
	next    time.Time // when the first entry expires; zero: there is none
	version uint64
}

// NewUnavailable returns an empty memory.
func NewUnavailable(now func() time.Time) *Unavailable {
	return &Unavailable{now: now, until: map[mark]time.Time{}, version: 1}
}

// Mark records that EC2 had insufficient capacity for an instance type in a zone: in general, or in a placement group
// only. Like the other Mark functions, it returns a description of what is unavailable, if that was not known before.
func (u *Unavailable) Mark(capacityType, instanceType, zone string, group Group, why string) (news string) {
	news = u.mark(mark{capacityType: capacityType, instanceType: instanceType, zone: zone, group: group}, why)
	if news != "" && group.ID == "" {
		u.Risks.Record(risk.InsufficientCapacity, capacityType, instanceType, zone)
	}
	return news
}

// MarkInterrupted says that EC2 takes back spot instances of a type in a zone.
func (u *Unavailable) MarkInterrupted(instanceType, zone string) {
	u.mark(mark{capacityType: karpv1.CapacityTypeSpot, instanceType: instanceType, zone: zone}, "SpotInterruption")
	u.Risks.Record(risk.Interrupted, karpv1.CapacityTypeSpot, instanceType, zone)
}

// MarkZone says that a placement group takes no more instances in a zone, whatever their type.
func (u *Unavailable) MarkZone(zone string, group Group, why string) string {
	return u.mark(mark{zone: zone, group: group}, why)
}

// MarkCapacityType records that nothing of a capacity type is available, as when a quota is used up (F03).
func (u *Unavailable) MarkCapacityType(capacityType, why string) string {
	return u.mark(mark{capacityType: capacityType}, why)
}

// MarkSubnet says that a subnet has no free addresses (F06).
func (u *Unavailable) MarkSubnet(subnet, why string) string {
	return u.mark(mark{subnet: subnet}, why)
}

func (u *Unavailable) mark(m mark, why string) (news string) {
	u.mu.Lock()
	now := u.now()
	if before, marked := u.until[m]; !marked || !now.Before(before) {
		news = m.String()
	}
	end := now.Add(unavailableFor)
	u.until[m] = end
	if u.next.IsZero() || end.Before(u.next) {
		u.next = end
	}
	u.version++
	u.mu.Unlock()
	// The detail holds the words that operators search the log for (S-101).
	u.Log.V(1).Info("removing offering from offerings", "reason", why, "detail", m.String(), "instance-type", m.instanceType, "zone", m.zone,
		"capacity-type", m.capacityType, "subnet", m.subnet, "placement-group", m.group.ID, "partition", m.group.Partition, "ttl", unavailableFor.String())
	return news
}

// String says what is not available.
func (m mark) String() string {
	parts := []string{"instance type", cmp.Or(m.instanceType, "of any name"), "is not available"}
	for _, part := range []struct{ before, value string }{
		{"as", m.capacityType},
		{"in zone", m.zone},
		{"in subnet", m.subnet},
		{"in placement group", m.group.ID},
		{"partition", m.group.Partition},
	} {
		if part.value != "" {
			parts = append(parts, part.before, part.value)
		}
	}
	return strings.Join(parts, " ")
}

// Has reports whether an offering is known to be out: in general, or for the placement group.
func (u *Unavailable) Has(capacityType, instanceType, zone string, group Group) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if len(u.until) == 0 {
		return false
	}
	now := u.now()
	out := func(m mark) bool {
		end, marked := u.until[m]
		return marked && now.Before(end)
	}
	if out(mark{capacityType: capacityType}) || out(mark{zone: zone}) ||
		out(mark{capacityType: capacityType, instanceType: instanceType, zone: zone}) {
		return true
	}
	if group.ID == "" {
		return false
	}
	whole := Group{ID: group.ID}
	for _, g := range []Group{whole, group} {
		if out(mark{zone: zone, group: g}) || out(mark{capacityType: capacityType, instanceType: instanceType, zone: zone, group: g}) {
			return true
		}
	}
	return false
}

// SubnetFull reports whether a subnet is known to be full.
func (u *Unavailable) SubnetFull(subnet string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	end, marked := u.until[mark{subnet: subnet}]
	return marked && u.now().Before(end)
}

// Version rises with every mark and with every expiry.
func (u *Unavailable) Version() uint64 {
	u.mu.RLock()
	version, due := u.version, !u.next.IsZero() && !u.now().Before(u.next)
	u.mu.RUnlock()
	if !due {
		return version
	}
	return u.sweep()
}

// sweep drops expired entries.
func (u *Unavailable) sweep() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	u.next = time.Time{}
	// any order: each expires by itself, and the earliest of the rest is kept
	for m, end := range u.until {
		switch {
		case !now.Before(end):
			delete(u.until, m)
			u.version++
		case u.next.IsZero() || end.Before(u.next):
			u.next = end
		}
	}
	return u.version
}
