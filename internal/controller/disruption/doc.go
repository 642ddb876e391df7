// Package disruption makes voluntary disruptions. It is the shell of internal/disrupt, which decides, and of
// internal/disrupt/command, which says the next step of a command.
//
// It reads views of internal/store, and pods, Nodes and claims from the API server before it acts. It writes taints,
// conditions and annotations, creates replacements through internal/execute and deletes claims. Conditions marks claims
// as consolidatable or drifted; DeletionCosts has ReplicaSets remove some pods first.
//
// Not here: what happens to a claim after its deletion (nodes). Start reading at Disruption.Pass, which decides and starts
// commands, and at Disruption.Work, which finishes them.
package disruption
