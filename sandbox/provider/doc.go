// Package provider proves the AWS packages of the controller against the emulated AWS, through the real
// SDK over HTTP and under the policies that the installation guide gives the controller.
//
// Only tests are here: one per behaviour of the provider, with the faults that the emulator can make.
// Not here: anything that needs an API server (sandbox/flow). Kubernetes is not imported, so that the
// race detector can watch.
//
// Start reading at newAWSEnv.
package provider
