package rights

import "slices"

// The groups of the API that rules name.
const (
	karpenter = "karpenter.sh"
	aws       = "karpenter.k8s.aws"
	buffers   = "autoscaling.x-k8s.io"
	storage   = "storage.k8s.io"
	apps      = "apps"
	policy    = "policy"
	leases    = "coordination.k8s.io"
)

const (
	// waits is what the controller does while it cannot know all it has to.
	waits = "the controller is not ready and does nothing; `/readyz/rights` and the log name the rule"
	// unused is said of rights of Karpenter's chart that nothing here needs yet.
	unused = "nothing changes; it is there since Karpenter's chart has it"
	// ledgerNames are the ConfigMaps of the ledger (internal/ledger/keep).
	ledgerNames = "dovetail-ledger-00, dovetail-ledger-01, dovetail-ledger-02, dovetail-ledger-03, dovetail-ledger-04, dovetail-ledger-05, dovetail-ledger-06, dovetail-ledger-07"
	// inMemory is what the ledger does when it cannot be stored.
	inMemory = "with `--ledger`, an error in the log; the ledger is kept in memory, and responses say so"
)

// All explains every right of the chart's roles, in their order; those at the end are granted by values of the chart only.
func All() []Right {
	return slices.Concat(ownKinds(), coreKinds(), otherKinds(), fewObjects(), optionalRights())
}

func read() []string { return []string{"get", "list", "watch"} }

// vitalRight is the right to read what nothing is planned without.
func vitalRight(group, resource, what string) Right {
	return Right{Role: Core, Group: group, Resource: resource, Verbs: read(), For: what, Without: waits, Vital: true}
}

// unusedRight is a right that is there for compatibility.
func unusedRight(group, resource string, verbs ...string) Right {
	return Right{Role: Core, Group: group, Resource: resource, Verbs: verbs, For: "nothing yet", Without: unused, Unused: true}
}

// forSpread is the right to read controllers of pods, which only default spread needs.
func forSpread(group, resource string) Right {
	return Right{
		Role: Core, Group: group, Resource: resource, Verbs: read(), For: "default spread (`--scheduler-config`)",
		Without: "with `--scheduler-config`, " + waits + "; without, nothing changes", Vital: true,
	}
}

// forSpreadAndBuffers is the right to read workloads, which CapacityBuffers may name too.
func forSpreadAndBuffers(resource string) Right {
	right := forSpread(apps, resource)
	right.For += "; the pods of CapacityBuffers that name one"
	right.Without += ", and a CapacityBuffer that names one gets `ReadyForProvisioning=False`"
	return right
}

// ownKinds are rights to NodePools, NodeClaims and NodeOverlays.
func ownKinds() []Right {
	return []Right{
		vitalRight(karpenter, "nodepools", "which nodes may be launched"),
		unusedRight(karpenter, "nodepools/status", read()...),
		vitalRight(karpenter, "nodeclaims", "which nodes were launched"),
		unusedRight(karpenter, "nodeclaims/status", read()...),
		{
			Role: Core, Group: karpenter, Resource: "nodeoverlays", Verbs: read(), For: "adjusted prices and capacity (feature gate `NodeOverlay`)",
			Without: "an error in the log, and prices and capacities are not adjusted",
		},
		unusedRight(karpenter, "nodeoverlays/status", read()...),
		{
			Role: Core, Group: karpenter, Resource: "nodeclaims", Verbs: []string{"create"}, For: "every node begins with a NodeClaim",
			Without: "no node is launched: an error in the log with each plan, and the event `FailedScheduling` of the pods says that claims of the NodePool are denied",
		},
		{
			Role: Core, Group: karpenter, Resource: "nodeclaims", Verbs: []string{"delete"}, For: "consolidation, drift, expiration, repair, interruption",
			Without: "no node is removed by the controller: an error in the log with each attempt",
		},
		{
			Role: Core, Group: karpenter, Resource: "nodeclaims", Verbs: []string{"patch"}, For: "finalizer, labels and annotations of claims",
			Without: "no claim is launched, and none that is deleted is finalized: an error in the log with each attempt",
		},
		unusedRight(karpenter, "nodeclaims", "update"),
		{
			Role: Core, Group: karpenter, Resource: "nodeclaims/status", Verbs: []string{"patch"}, For: "conditions, provider id and capacity of claims",
			Without: "a claim that was launched is not written down: it stays without conditions, no further node is registered, and an error in the log follows each attempt",
		},
		unusedRight(karpenter, "nodeclaims/status", "create", "delete", "update"),
		{
			Role: Core, Group: karpenter, Resource: "nodepools", Verbs: []string{"patch"}, For: "the hash annotation, by which drift is found",
			Without: "a NodePool gets no hash annotation, so that a change of its template makes no node drift: an error in the log with each attempt",
		},
		unusedRight(karpenter, "nodepools", "update"),
		{
			Role: Core, Group: karpenter, Resource: "nodepools/status", Verbs: []string{"patch"}, For: "conditions and counters of pools",
			Without: "a new NodePool never becomes ready, and nothing is launched for it: an error in the log with each attempt",
		},
		unusedRight(karpenter, "nodepools/status", "update"),
		{
			Role: Core, Group: karpenter, Resource: "nodeoverlays/status", Verbs: []string{"patch"}, For: "conditions of overlays",
			Without: "overlays are applied and have no conditions: an error in the log with each attempt",
		},
		unusedRight(karpenter, "nodeoverlays/status", "update"),
	}
}

// coreKinds are rights to what every cluster has, and to buffers.
func coreKinds() []Right {
	return []Right{
		{
			Role: Core, Group: buffers, Resource: "capacitybuffers", Verbs: read(), For: "which CapacityBuffers to keep room for (gate `CapacityBuffer`)",
			Without: "no room is kept for CapacityBuffers: a warning in the log, which names the rule; everything else works",
		},
		unusedRight(buffers, "capacitybuffers/status", read()...),
		{
			Role: Core, Group: buffers, Resource: "capacitybuffers/status", Verbs: []string{"patch"}, For: "replicas and conditions of CapacityBuffers",
			Without: "room is kept, and no condition of a CapacityBuffer says so: an error in the log with each attempt",
		},
		unusedRight(buffers, "capacitybuffers/status", "update"),
		vitalRight("", "pods", "which pods wait, and what runs where"),
		vitalRight("", "nodes", "where pods may run"),
		vitalRight("", "persistentvolumes", "where volumes can be attached"),
		vitalRight("", "persistentvolumeclaims", "which volumes pods mount"),
		forSpread("", "replicationcontrollers"),
		vitalRight("", "namespaces", "which namespaces affinity terms select"),
		{
			Role: Core, Resource: "podtemplates", Verbs: read(), For: "the pods of CapacityBuffers that name a PodTemplate",
			Without: "such buffers get `ReadyForProvisioning=False`, which names the rule; everything else works",
		},
		unusedRight("", "events", read()...),
		{
			Role: Core, Resource: "events", Verbs: []string{"create"}, For: "events, which tell users why",
			Without: "no events: a warning in the log",
		},
		{
			Role: Core, Resource: "events", Verbs: []string{"patch"}, For: "an event that repeats is counted",
			Without: "an event that repeats keeps its first time and count: a warning in the log",
		},
		{
			Role: Core, Resource: "nodes", Verbs: []string{"patch"}, For: "labels, taints and the finalizer of nodes",
			Without: "no node is registered and none is drained: the claim stays `Registered=Unknown` until it is replaced, and an error in the log follows each attempt",
		},
		unusedRight("", "nodes", "update"),
		{
			Role: Core, Resource: "nodes", Verbs: []string{"delete"}, For: "the Node of a claim that is deleted",
			Without: "a claim that is deleted keeps its finalizer, its node and its instance: an error in the log with each attempt",
		},
		{
			Role: Core, Resource: "pods/eviction", Verbs: []string{"create"}, For: "drains",
			Without: "no node is drained: event `FailedDraining` of the node, and an error in the log with each attempt",
		},
		{
			Role: Core, Resource: "pods", Verbs: []string{"delete"}, For: "pods that are left when the terminationGracePeriod of their node is over",
			Without: "such pods end only with their instance: event `FailedDraining` of the node, and an error in the log with each attempt",
		},
	}
}

// otherKinds are rights to read what decides where pods may run.
func otherKinds() []Right {
	return []Right{
		vitalRight(storage, "storageclasses", "where volumes can be made"),
		vitalRight(storage, "csinodes", "how many volumes fit a node"),
		vitalRight(storage, "volumeattachments", "volumes that a node being removed still has"),
		vitalRight(apps, "daemonsets", "what runs on every new node"),
		{
			Role: Core, Group: apps, Resource: "deployments", Verbs: read(), For: "a second controller in another namespace is found by its Deployment; the pods of CapacityBuffers that name a Deployment",
			Without: "a warning in the log; a second controller in another namespace is not noticed, unless its lease may be read",
		},
		forSpreadAndBuffers("replicasets"),
		forSpreadAndBuffers("statefulsets"),
		vitalRight(policy, "poddisruptionbudgets", "which pods may not be evicted"),
	}
}

// fewObjects are the rights of the other roles.
func fewObjects() []Right {
	return []Right{
		{Role: Classes, Group: aws, Resource: "ec2nodeclasses", Verbs: read(), For: "how nodes are made", Without: waits, Vital: true},
		{
			Role: Classes, Group: aws, Resource: "ec2nodeclasses", Verbs: []string{"patch"}, For: "finalizer and hash annotation of classes",
			Without: "a new EC2NodeClass never becomes ready, and one that is deleted keeps its finalizer: an error in the log with each attempt",
		},
		{Role: Classes, Group: aws, Resource: "ec2nodeclasses", Verbs: []string{"update"}, For: "nothing yet", Without: unused, Unused: true},
		{
			Role: Classes, Group: aws, Resource: "ec2nodeclasses/status", Verbs: []string{"patch"}, For: "conditions of classes, and what was found for them",
			Without: "a new EC2NodeClass never becomes ready: an error in the log with each attempt",
		},
		{Role: Classes, Group: aws, Resource: "ec2nodeclasses/status", Verbs: []string{"update"}, For: "nothing yet", Without: unused, Unused: true},
		{Role: Release, Group: leases, Resource: "leases", Verbs: []string{"get", "create"}, For: "one of the replicas leads", Without: "no replica leads, and " + waits, Vital: true},
		{Role: Release, Group: leases, Resource: "leases", Verbs: []string{"watch"}, For: "nothing yet", Without: unused, Unused: true},
		{Role: Release, Group: leases, Resource: "leases", Name: "karpenter-leader-election", Verbs: []string{"update"}, For: "the leader stays leader", Without: "no replica leads, and " + waits, Vital: true},
		{Role: Release, Group: leases, Resource: "leases", Name: "karpenter-leader-election", Verbs: []string{"patch"}, For: "nothing yet", Without: unused, Unused: true},
		{
			Role: DNS, Resource: "services", Name: "kube-dns", Verbs: []string{"get"}, For: "the address of the cluster's DNS, for the kubelets of new nodes",
			Without: "nodes use the address that their image assumes: a warning in the log",
		},
	}
}

// forDRA is the right to read what pods with resource claims use.
func forDRA(resource string) Right {
	return Right{
		Role: Core, Group: "resource.k8s.io", Resource: resource, Verbs: read(), Value: "settings.ignoreDRARequests=false", For: "nodes for pods with resource claims (`--ignore-dra-requests=false`)",
		Without: "with `--ignore-dra-requests=false`, an error in the log, and no nodes are made for pods with resource claims",
	}
}

// optionalRights are rights that values of the chart grant.
func optionalRights() []Right {
	return []Right{
		forDRA("deviceclasses"), forDRA("resourceclaims"),
		{
			Role: Core, Group: "resource.k8s.io", Resource: "resourceclaimtemplates", Verbs: read(), Value: "settings.ignoreDRARequests=false", For: "nothing yet: the claims made from them are read",
			Without: "nothing changes", Unused: true,
		},
		forDRA("resourceslices"),
		{
			Role: Core, Resource: "pods/status", Verbs: []string{"patch"}, Value: "optionalRights.nominatePods=true", For: "the scheduler tries pods first on the node that was launched for them",
			Without: "with `--nominate-pods`, an error in the log, and the scheduler decides alone",
		},
		{
			Role: Core, Resource: "limitranges", Verbs: []string{"list", "watch"}, Value: "optionalRights.limitRanges=true", For: "the requests that a LimitRange sets for pods of a DaemonSet",
			Without: "a warning in the log; a first node may be too small where a LimitRange gives requests to a DaemonSet",
		},
		{
			Role: Core, Group: leases, Resource: "leases", Verbs: []string{"list"}, Value: "optionalRights.foreignLeases=true", For: "a second controller in another namespace is found by its lease",
			Without: "a warning in the log; a second controller in another namespace is noticed by its Deployment only",
		},
		{
			Role: Core, Resource: "services", Verbs: []string{"list", "watch"}, Value: "settings.schedulerConfig", For: "default spread (`--scheduler-config`)",
			Without: "with `--scheduler-config`, a warning in the log, and default spread uses the controllers of pods alone",
		},
		{
			Role: Release, Resource: "configmaps", Verbs: []string{"create"}, Value: "settings.ledger=true", For: "the ConfigMaps of the ledger (`--ledger`)", Without: inMemory,
		},
		{
			Role: Release, Resource: "configmaps", Name: ledgerNames, Verbs: []string{"get", "update"}, Value: "settings.ledger=true", For: "the same", Without: inMemory,
		},
		{
			Role: Core, Resource: "pods", Verbs: []string{"patch"}, Value: "settings.featureGates.podDeletionCostManagement=true", For: "deletion costs of pods (feature gate `PodDeletionCostManagement`)",
			Without: "with the gate, an error in the log, and no deletion costs are written",
		},
	}
}
