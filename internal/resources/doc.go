// Package resources holds quantities as compact integer vectors: add, subtract, compare, fit, and
// what a pod requests (SC-11). A Table gives each resource name a lane; a Vec holds one number per
// lane. Operations saturate instead of wrapping and never fail.
//
// Not here: prices, labels, volumes, which pods are on which node; callers own those.
// Start reading at Table.PodRequests, Table.Capacity and Fits.
package resources
