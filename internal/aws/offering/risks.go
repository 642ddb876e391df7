package offering

import (
	"sync"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// Risks says what the risk of offerings counts: what was observed of them, and a table of the user's. It is lost with
// the process. It is safe for concurrent use, and a nil one knows of no risk.
type Risks struct {
	now   func() time.Time
	table map[string]float64 // by instance type, or type/zone; for spot

	mu   sync.Mutex
	book risk.Book
}

// NewRisks returns a Risks with nothing observed.
func NewRisks(table map[string]float64, now func() time.Time) *Risks {
	return &Risks{now: now, table: table}
}

// Record counts an event of an offering.
func (r *Risks) Record(e risk.Event, capacityType, instanceType, zone string) {
	if r == nil || instanceType == "" || zone == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.Add(e, risk.Offering{InstanceType: instanceType, Zone: zone, CapacityType: capacityType}, r.now())
}

// Version rises when a share changes.
func (r *Risks) Version() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Version(r.now())
}

// Share is what the risk of an offering counts, as a share of its price.
func (r *Risks) Share(capacityType, instanceType, zone string) float64 {
	if r == nil {
		return 0
	}
	share := 0.0
	if capacityType == karpv1.CapacityTypeSpot && len(r.table) > 0 {
		var known bool
		if share, known = r.table[instanceType+"/"+zone]; !known {
			share = r.table[instanceType]
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return share + r.book.Share(risk.Offering{InstanceType: instanceType, Zone: zone, CapacityType: capacityType}, r.now())
}
