// Package bench measures how large a cluster the sandbox holds: it starts a world, launches machines
// through the API of the emulated AWS, runs pods on them through the real scheduler, takes all away
// again, and says what each phase took in time, processor and memory.
//
// Everything runs in one process. Its CPU time is split by part with the labels of the profiler: each
// component is started under a label, and the goroutines that it starts inherit it. Memory has no such
// labels; the live heap is split by the package that allocated it, from the sampled heap profile.
// Start reading at Run.
package bench
