// Package controlplane runs a real Kubernetes control plane inside this process: etcd on unix
// sockets, then kube-apiserver, kube-controller-manager and kube-scheduler, listening on loopback
// only, with RBAC on and certificates made at each start. A folder holds all of its state; started
// again on that folder, it goes on with the objects it had.
//
// There are no nodes here, and no clients: package kubectl has those. Kubernetes keeps some of its
// state in package variables, so a process runs one control plane at a time, one after another.
// Enter at Start.
package controlplane
