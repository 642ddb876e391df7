// Package journal keeps what was decided and why, for later diagnosis: commands and how they ended,
// what was refused and since when, and plans. It is kept in memory, bounded by count and by bytes; what is older
// is gone, and so is everything after a restart.
//
// A value is turned into JSON once, when it is recorded, so that a query costs little and shows what was
// known then. Handler serves it, Guard queries the API server who may read it. Not here: decisions
// (internal/disrupt, internal/solve), events (internal/report), metrics (internal/metric).
//
// Start reading at New.
package journal
