package inspect

import (
	"context"
	"time"
)

// SavingsQuery selects the days of a savings report. The zero SavingsQuery requests all of them.
type SavingsQuery struct {
	Since time.Time `json:"since,omitzero"` // days that end after it
	Until time.Time `json:"until,omitzero"` // days that begin before it
}

// Savings is what the nodes of a cluster cost, by day, NodePool and namespace.
type Savings struct {
	Days  []DaySavings `json:"days"`            // oldest first; days of which nothing is known are left out
	Notes []string     `json:"notes,omitempty"` // what is missing, and why
}

// DaySavings is what nodes cost on one day.
type DaySavings struct {
	Day        string       `json:"day"`        // in UTC: 2026-11-19
	Hours      float64      `json:"hours"`      // of the day that were observed
	BoundHours float64      `json:"boundHours"` // of them, those in which the lower bound was known
	Total      SavingsRow   `json:"total"`
	NodePools  []SavingsRow `json:"nodePools"`  // by name; they add up to the total
	Namespaces []SavingsRow `json:"namespaces"` // by name, then what belongs to none; they add up to the total
}

// SavingsRow is what a part of a cluster cost.
type SavingsRow struct {
	Name           string  `json:"name,omitempty"`       // of the NodePool or the namespace, or RowIdle or RowOther; empty for the total
	Spent          float64 `json:"spent"`                // USD
	Unconsolidated float64 `json:"unconsolidated"`       // USD, estimated: what it would have cost without consolidation; at least Spent
	Bound          float64 `json:"bound,omitempty"`      // USD in the BoundHours, of the total only: no nodes that held the pods would have cost less
	BoundSpent     float64 `json:"boundSpent,omitempty"` // USD that were spent in the BoundHours, to compare with Bound
	Evictions      int     `json:"evictions"`            // pods that were evicted, or deleted at a deadline
}

// Names of rows that are no NodePool and no namespace. No object can have such a name.
const (
	RowIdle  = "(idle)"  // of namespaces: what no pod requests
	RowOther = "(other)" // those beyond the limit of rows, or that are not known
)

// Accountant knows what a cluster cost.
type Accountant interface {
	Savings(ctx context.Context, query SavingsQuery) (Savings, error)
}
