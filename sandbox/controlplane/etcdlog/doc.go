// Package etcdlog takes the log of the API server's etcd client away from standard error. Kubernetes
// builds that logger while its packages are initialised, from a package variable of etcd and with no
// option to change it, and then warns of every request that a stop cuts off.
//
// It works because Go initialises packages whose imports are ready in the order of their paths: this
// one, in github.com and needing no more than the logger does, comes before k8s.io. Start reading at To.
package etcdlog
