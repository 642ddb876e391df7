// Package scenario reads benchmark scenarios: one JSON file that says what can be launched, what is
// there and what is waiting. Load refuses a bad file with the JSON path of every fault.
//
// The way to a decision has three steps, so that the last can be measured alone: World makes
// Kubernetes objects of the file, as a watch would deliver them; Store reads the nodes and the pods on
// them, which a controller does as they change; Compile reads what is waiting and cuts a
// cluster.Snapshot. File turns a plan back into counts of the scenario's pods.
//
// Not here: deciding (internal/solve), clocks and output (internal/cli), the files themselves
// (internal/scenario/families). Start reading at Load.
package scenario
