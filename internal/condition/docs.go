package condition

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Doc is what there is to know about one state of a condition.
type Doc struct {
	Kind    string
	Type    string
	Status  metav1.ConditionStatus
	Reason  string // in a condition; in Docs alone also words in italics, where many are possible
	Meaning string
	Fix     string // empty: nothing, or time helps
}

const (
	yes, no, open = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

	awaited = "it was not looked at yet"
)

// Docs lists every state of every condition that is written, in the order of the documentation. What is not here about a
// true condition has its type as reason. The cloud says what conditions its node classes have, and with which reasons
// condition Launched says that it denied a launch.
func Docs(classes, denials []Doc) []Doc {
	return slices.Concat(ofKind("NodePool", poolDocs()), classes, ofKind("NodeClaim", claimDocs(denials)))
}

func ofKind(kind string, docs []Doc) []Doc {
	for i := range docs {
		docs[i].Kind = kind
	}
	return docs
}

// ClassDocs are the states of the conditions of a kind of node classes: those of the root condition, and more.
func ClassDocs(kind, ready, why string, more []Doc) []Doc {
	return ofKind(kind, append(append(rootDocs(ready, why), more...), Doc{Type: "*any*", Status: open, Reason: AwaitingReconciliation, Meaning: awaited}))
}

// rootDocs are the states of a root condition.
func rootDocs(ready, why string) []Doc {
	return []Doc{
		{Type: "Ready", Status: yes, Reason: "Ready", Meaning: ready},
		{Type: "Ready", Status: no, Reason: UnhealthyDependents, Meaning: why, Fix: "see the conditions that the message names"},
		{Type: "Ready", Status: open, Reason: ReconcilingDependents, Meaning: "not all conditions are known yet", Fix: "see the conditions that the message names, if it lasts"},
	}
}

func poolDocs() []Doc {
	return append(rootDocs("the NodePool gets nodes", "the NodePool gets no nodes; those that it has stay"), []Doc{
		{Type: "ValidationSucceeded", Status: yes, Reason: "ValidationSucceeded", Meaning: "the NodePool can be used as it is written"},
		{Type: "ValidationSucceeded", Status: no, Reason: "NodePoolValidationFailed", Meaning: "a field has a value that admission let through and that cannot work", Fix: "change the field that the message names"},
		{Type: "NodeClassReady", Status: yes, Reason: "NodeClassReady", Meaning: "its EC2NodeClass is ready"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassNotFound", Meaning: "nodeClassRef names no EC2NodeClass that exists", Fix: "create it, or correct nodeClassRef"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassTerminating", Meaning: "its EC2NodeClass is being deleted", Fix: "use another one"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassReadinessUnknown", Meaning: "its EC2NodeClass was not checked yet", Fix: "see the conditions of the EC2NodeClass, if it lasts"},
		{Type: "NodeClassReady", Status: no, Reason: UnhealthyDependents, Meaning: "its EC2NodeClass is not ready", Fix: "see the conditions of the EC2NodeClass that the message names"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassNotReady", Meaning: "its EC2NodeClass is not ready and does not say why", Fix: "see the conditions of the EC2NodeClass"},
		{Type: "NodeRegistrationHealthy", Status: yes, Reason: "NodeRegistrationHealthy", Meaning: "the last nodes of the NodePool joined the cluster"},
		{Type: "NodeRegistrationHealthy", Status: no, Reason: "RegistrationFailed", Meaning: "several of the last nodes were launched and did not join; a launch that failed has the reason of condition Launched of its NodeClaim", Fix: "see the message, and docs/runbooks/nodes-do-not-join.md"},
		{Type: "NodeRegistrationHealthy", Status: open, Reason: AwaitingReconciliation, Meaning: "no node was launched since the NodePool or its EC2NodeClass changed"},
	}...)
}
