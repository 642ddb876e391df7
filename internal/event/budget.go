package event

// How many events an object gets at most, so that a cluster of thousands of nodes does not drown in them. A
// node is its Node and its NodeClaim together. What repeats is told again every 15 minutes: four times an hour,
// on both objects.
const (
	NodeUp   = 4  // from its order until it runs pods
	NodeHour = 8  // while it runs, for each thing that keeps it
	NodeDown = 14 // from the decision to remove it until it is gone, in the first quarter of an hour
	PodHour  = 4  // while it waits for a node that was ordered
	PodMoved = 1  // each time that it is evicted
)
