// Package fakenode acts for the kubelets of an emulated cloud: a running instance becomes a Node,
// following the user data it was launched with, and the pods bound to it are admitted, run, crash,
// complete and stop. It also stands in for the neighbours of a kubelet: the cloud controller that
// deletes the Nodes of terminated instances, the agents that take startup taints away, and the
// provisioner and the attacher of CSI volumes.
//
// What happens until a node is Ready is timed by the emulated Clock; leases, pods and flapping, which
// Kubernetes times itself, by the wall clock. Not here: instances and their states (Cloud provides
// them), scheduling, eviction and the binding of volumes (the real controllers do that).
//
// Start reading at New and Run; KubeletAPI serves logs. ParseUserData, Capacity and Allocatable are pure and useful alone.
package fakenode
