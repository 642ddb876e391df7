// Package pools keeps the status of NodePools, and static NodePools at their size. It is the shell of internal/pool.
//
// It watches NodePools, their node classes and the number of their claims. It writes conditions, hashes and resources of
// pools, and creates and deletes the claims of static ones. Health collects how launches end; claims reports them to it.
//
// Not here: the nodes of pools that are not static (provisioning, disruption). Start reading at Pools.Reconcile, Counter.Pass and
// Static.Grow.
package pools
