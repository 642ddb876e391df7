// Package lookup finds objects in the cache of the manager: the Nodes of an instance, its NodeClaims, the pods on a node,
// and whether a node class is one that this process manages.
//
// Index has to be called before the manager starts; the lookups use its indexes. Lists are by namespace and name, since
// the cache returns them in any order and decisions, events and errors must not depend on that.
//
// Not here: writes (write), and reads of the API server itself, which a controller makes where it must not trust the cache.
package lookup
