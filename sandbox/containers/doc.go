// Package containers runs the containers of certain images as processes on this machine, where everything else in the
// sandbox only says that it runs: a Deployment of the chart then runs the program that users have, with the arguments, the
// environment and the service account that the chart gives it.
//
// A container has what a container of a pod has: its environment and nothing of ours, fields of its pod and its resources,
// files of ConfigMaps and Secrets, tokens of its service account, bound to its pod and renewed. There is no file system of
// its own: where an argument or a variable names a path below a mount, it gets the folder that stands for it, and the token
// of the service account comes as a kubeconfig. There is no network of its own either: the ports of the program are mapped
// to free ones, and Options.Network is what a network would lead to.
//
// What admission adds to a pod works as in a cluster: EKS gives credentials of AWS with variables and a projected token of
// another audience, and both are followed here like any other.
//
// Enter at New; fakenode.Options.Runtime takes it. Not here: when a container starts, is probed, restarted and stopped,
// which is what a kubelet decides.
package containers
