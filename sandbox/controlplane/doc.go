// Package controlplane runs a real Kubernetes control plane inside this process: etcd on unix
// sockets, then kube-apiserver, kube-controller-manager and kube-scheduler, listening on loopback
// only, with RBAC on and certificates made at each start. A folder holds all of its state; started
// again on that folder, it goes on with the objects it had.
//
// There are no nodes here, and no clients: package kubectl has those. A process may run several control
// planes; they start one after another, and share what Kubernetes keeps in package variables: the log,
// feature gates and metrics. Enter at Start.
package controlplane
