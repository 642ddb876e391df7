// Package eks knows the cluster as AWS and its API server describe it: endpoint, certificate, DNS
// address, Kubernetes version, service addresses.
//
// What nodes need to join is resolved once by Start, the version again by RefreshVersion, the rest when
// it is first requested. Not here: how nodes use it (internal/aws/userdata), permissions.
//
// Start reading at New and Cluster.Start.
package eks
