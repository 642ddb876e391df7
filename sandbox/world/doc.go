// Package world puts the sandbox together: a control plane with our CRDs, an AWS on a loopback port,
// nodes for its instances, a fixed group of unmanaged nodes, a metrics API, and a proxy in
// front of the API server where requests can go wrong.
//
// The command, the demo and the flow tests start it from here. A controller runs in it only on request
// for: see RunController. Start reading at Start.
package world
