// Package embedded runs the components of a control plane inside this process. The sandbox command does so; a test binary
// runs the program around this package instead, see controlplane.Process, and is not linked with Kubernetes.
//
// Start reading at Start; Serve is what the program does.
package embedded
