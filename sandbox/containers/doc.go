// Package containers runs the containers of certain images as processes on this machine, where everything else in the
// sandbox only says that it runs: a Deployment of the chart then runs the program that users have, with the arguments, the
// environment and the service account that the chart gives it.
//
// A container has what one of a pod has, and what admission adds, as EKS does for credentials: its environment, fields of its
// pod, files of ConfigMaps and Secrets, tokens bound to its pod and renewed. It has no file system: a path below a mount becomes
// the folder that stands for it, and the token comes as a kubeconfig. It has no network: its ports are mapped to free ones, and
// Options.Network is what a network would lead to.
//
// Start reading at New; fakenode.Options.Runtime takes it. Not here: when a container starts, is probed, restarted and stopped,
// which is what a kubelet decides.
package containers
