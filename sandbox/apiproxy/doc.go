// Package apiproxy stands between a controller and the API server and makes requests go wrong on
// demand: slow, refused, cut off, by verb and resource. What no fault names passes through, watches
// included.
//
// It speaks plain HTTP on loopback and brings its own credentials, so whoever reaches it acts as the
// identity it was given. Enter at New.
package apiproxy
