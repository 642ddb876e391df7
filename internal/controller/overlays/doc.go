// Package overlays applies NodeOverlays: it has them evaluated when something changes, keeps the result for all that
// list instance types, and writes conditions.
//
// Provider stands in front of a cloud.Provider, so that all plans see the same instance types. A NodePool that was not
// evaluated yet has none: nothing is ever planned with prices that an overlay is about to change.
//
// Not here: what overlays make of instance types (internal/overlay). Start reading at Overlays.
package overlays
