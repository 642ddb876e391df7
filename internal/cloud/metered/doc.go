// Package metered measures a cloud: the calls that controllers make to it, and what it has offered.
//
// Provider stands in front of the cloud.Provider of any cloud. Offerings shows instance types with their sizes,
// prices and availability. Not here: the requests behind a call, which each cloud counts by itself. Enter at
// Provider.
package metered
