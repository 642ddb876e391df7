// Package controller holds tests of the controller against a real API server. It has a control plane
// of its own: a controller that writes status would disturb the cases of package apiserver.
//
// There is no code here but tests.
package controller
