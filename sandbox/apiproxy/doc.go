// Package apiproxy stands between a controller and the API server and makes requests go wrong on
// demand: slow, refused, cut off, by verb and resource. What no fault names passes through, watches
// included.
//
// It also says what was requested: Watch shows every request, and Once calls a function right before or
// after a certain one, so that a test can kill the client between two steps.
//
// It speaks plain HTTP on loopback and brings its own credentials, so any client that reaches it acts as the
// identity it was given, unless the request carries a token of its own. Start reading at New.
package apiproxy
