// Package cloud is what a cloud must be able to do for us: offer instances, find them, end them.
//
// The Provider is the only door; internal/aws and the market of internal/sim are behind it. Packages below this one are
// what every cloud shares, and internal/cloud/driver is a cloud as the wiring sees it. Here are no calls, only the words in which
// they are made and return. Not here: which instance to launch (internal/solve), when to end one
// (internal/lifecycle).
//
// Start reading at Provider.
package cloud
