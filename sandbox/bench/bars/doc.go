// Package bars measures the controller against the bars that it is built to: how much it needs in a
// small cluster, how fast it decides about ten thousand pods, what it costs the API server and AWS, how
// soon it reacts to one pod and to missing capacity, and how a fleet that is too large shrinks.
//
// The controller is the binary that users run, in a process of its own; the sandbox around it has a real
// scheduler. Its memory and CPU time are those that the kernel counts for the process, requests to the
// API server are counted by the proxy, and those to AWS by the emulated account. A bar that is missed is
// printed, and is no failure: how long something takes depends on the machine. Start reading at Run.
package bars
