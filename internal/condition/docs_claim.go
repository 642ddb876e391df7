package condition

import "slices"

func claimDocs(denials []Doc) []Doc {
	launched := Doc{Type: "Launched", Status: yes, Reason: "Launched", Meaning: "the instance exists"}
	return slices.Concat(rootDocs("the node runs pods", "the node does not run pods"), []Doc{launched}, denials, []Doc{
		{Type: "Registered", Status: yes, Reason: "Registered", Meaning: "the node joined the cluster and has its labels and taints"},
		{Type: "Registered", Status: open, Reason: "NodeNotFound", Meaning: "the instance runs and no node has joined; after 15 minutes the NodeClaim is replaced", Fix: "see docs/runbooks/nodes-do-not-join.md"},
		{Type: "Registered", Status: open, Reason: "RegistrationHookPending", Meaning: "something that must be known of the instance is not known yet"},
		{Type: "Registered", Status: no, Reason: "MultipleNodesFound", Meaning: "several nodes have the provider ID of the instance", Fix: "delete the node that is not that of the instance"},
		{Type: "Initialized", Status: yes, Reason: "Initialized", Meaning: "the node is ready, its startup taints are gone and its resources are there"},
		{Type: "Initialized", Status: open, Reason: "NodeNotFound", Meaning: "there is not exactly one node of the instance"},
		{Type: "Initialized", Status: open, Reason: "NodeNotReady", Meaning: "the kubelet does not report the node as ready", Fix: "see the conditions of the node, often the CNI plugin"},
		{Type: "Initialized", Status: open, Reason: "StartupTaintsExist", Meaning: "a startup taint of the NodePool is still on the node", Fix: "see who should remove it"},
		{Type: "Initialized", Status: open, Reason: "KnownEphemeralTaintsExist", Meaning: "a taint of Kubernetes that passes, such as not-ready, is still on the node", Fix: "see the cloud controller and the CNI plugin, if it lasts"},
		{Type: "Initialized", Status: open, Reason: "ResourceNotRegistered", Meaning: "a resource that pods were planned with, such as nvidia.com/gpu, is not on the node", Fix: "install the device plugin"},
		{Type: "Initialized", Status: open, Reason: "DRADriverPoolsNotPublished", Meaning: "a DRA driver has not published its devices of the node; the message says so if it is late", Fix: "install the driver; see how-to/devices.md"},
		{Type: "Initialized", Status: open, Reason: "Rebooting", Meaning: "the node is being rebooted by node repair"},
		{Type: "ConsistentStateFound", Status: yes, Reason: "ConsistentStateFound", Meaning: "the node is as large as was expected"},
		{Type: "ConsistentStateFound", Status: no, Reason: "ConsistencyCheckFailed", Meaning: "the node has less than 90 % of an expected resource", Fix: "see the message; raise vmMemoryOverheadPercent if it is memory"},
		{Type: "Consolidatable", Status: yes, Reason: "Consolidatable", Meaning: "no pod came or went for as long as consolidateAfter says, so that the node is a candidate for consolidation"},
		{Type: "Drifted", Status: yes, Reason: "*a code of reasons.md*", Meaning: "the node differs from its NodePool or EC2NodeClass; the message says in what", Fix: "nothing: it is replaced as budgets allow"},
		{Type: "DisruptionReason", Status: yes, Reason: "*why, such as Empty, Underutilized, Drifted or Unhealthy*", Meaning: "a disruption of the node has begun"},
		{Type: "DisruptionBlocked", Status: yes, Reason: "*a code of reasons.md*", Meaning: "something blocks the disruption of the node until a user acts; Dovetail's own", Fix: "see the code in reasons.md"},
		{Type: "Rebooting", Status: yes, Reason: "RebootRequested", Meaning: "node repair wants the node rebooted"},
		{Type: "Rebooting", Status: yes, Reason: "RebootIssued", Meaning: "a reboot of the instance was requested"},
		{Type: "Rebooting", Status: no, Reason: "RebootSucceeded", Meaning: "the node is back"},
		{Type: "Rebooting", Status: no, Reason: "RebootFailed", Meaning: "the reboot did not help, or could not be requested; the node is replaced"},
		{Type: "Drained", Status: open, Reason: "Draining", Meaning: "pods are being evicted; the message says which are left and what holds them", Fix: "see docs/runbooks/drain-blocked.md"},
		{Type: "Drained", Status: yes, Reason: "Drained", Meaning: "no pod that counts is left on the node"},
		{Type: "VolumesDetached", Status: open, Reason: "AwaitingVolumeDetachment", Meaning: "volumes are still attached to the node", Fix: "see the CSI driver, if it lasts"},
		{Type: "VolumesDetached", Status: yes, Reason: "VolumesDetached", Meaning: "no volume is attached any more"},
		{Type: "VolumesDetached", Status: no, Reason: "TerminationGracePeriodElapsed", Meaning: "the deadline of the node came before its volumes were detached"},
		{Type: "InstanceTerminating", Status: yes, Reason: "InstanceTerminating", Meaning: "termination of the instance was requested from EC2"},
		{Type: "InstanceTerminating", Status: open, Reason: "Unauthorized", Meaning: "the controller may not terminate the instance", Fix: "allow ec2:TerminateInstances; see iam.md"},
		{Type: "InstanceTerminating", Status: open, Reason: "Throttled", Meaning: "EC2 throttles the account; it is tried again"},
		{Type: "InstanceTerminating", Status: open, Reason: "TerminationFailed", Meaning: "EC2 did not terminate the instance; the message says why", Fix: "often termination protection of the instance: switch it off"},
		{Type: "InstanceTerminating", Status: open, Reason: "ZoneShifted", Meaning: "the zone is shifted away, and instances of it are left alone meanwhile"},
		{Type: "*any*", Status: open, Reason: AwaitingReconciliation, Meaning: awaited},
	})
}
