// Package offering knows which instance types EC2 has, what pods can use of each, and where each can be launched at
// the moment, at what price.
//
// A Catalog turns what EC2 describes into the values of internal/catalog, per node class: capacity and overhead
// follow the class and its kubelet settings; offerings follow prices, reservations, zonal shifts and the cache of
// insufficient capacity (Unavailable). Lists are shared and rebuilt only when one of these changed. Not here: prices
// (internal/aws/price), launches (internal/aws/launch).
//
// Start reading at New and Catalog.Types.
package offering
