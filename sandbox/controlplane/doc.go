// Package controlplane starts a real Kubernetes control plane and holds on to it: etcd on unix sockets, then
// kube-apiserver, kube-controller-manager and kube-scheduler, listening on loopback only, with RBAC on and certificates
// made at each start. A folder holds all of its state; started again on that folder, it goes on with the objects it had.
//
// Nothing here is linked with Kubernetes: package embedded is, and runs the components in its process. Process is a
// Starter that runs the program around that package as a child, so that a test binary is linked in half the time.
// There are no nodes here, and no clients: package kubectl has those. Start reading at Process and ControlPlane.
package controlplane
