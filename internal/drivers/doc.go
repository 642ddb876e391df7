// Package drivers is the one place that knows which clouds there are: it hands the driver of this program to the commands
// and to the generators of reference pages, neither of which names a cloud.
//
// Its tests hold what users see of the settings of core and cloud together: names and defaults, the values of the chart, the
// page of differences.
//
// Not here: what a driver is (internal/cloud/driver), what is behind it (internal/aws). Start reading at Driver.
package drivers
