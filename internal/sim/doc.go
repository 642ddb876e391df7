// Package sim runs a cluster that exists only in memory, in virtual time, around the decision code of the
// controller as it is: the store that watches feed, provisioning, life cycle, disruption with its commands and
// repair, NodePools, buffers, reboots, drains with their eviction queue.
//
// Modelled are the API server with its watches, a scheduler, kubelets, controllers of pods, volumes, and a
// cloud; and the failures that happen to them: missing capacity, machines that break, never join or
// become unhealthy, interruptions, terminations that the cloud refuses, evictions that fail, Nodes that users delete, watches
// that lag or stand still, a controller that dies between any two writes.
// One seed gives one run, bit for bit. Rules are checked at every step; what breaks one is a Violation.
//
// Not here: API calls and their retries (internal/controller; sandbox runs those). Start reading at Generate and Run;
// Steps and Protocol are where tests plant bugs.
package sim
