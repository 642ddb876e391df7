// Package offering knows which instance types EC2 has, what pods can use of each, and where each can be
// bought at the moment, at what price.
//
// A Catalog turns what EC2 describes into the values of internal/catalog, per node class: capacity and
// overhead follow the class and its kubelet settings, offerings follow prices, reservations, zonal shifts
// and the memory of what could not be had (Unavailable). Answers are shared and rebuilt only when one of
// these changed. Not here: prices (internal/aws/price), buying (internal/aws/launch).
//
// Enter at New and Catalog.Types.
package offering
