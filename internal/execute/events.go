package execute

import "github.com/dovetail-sh/dovetail/internal/event"

// NominatedOn is the event of a pod that is planned onto a node or a claim.
func NominatedOn(place string) event.Event {
	return event.Event{Reason: event.Nominated, Text: "Pod should schedule on: " + place}
}

// Terminating is the event of a removal that is no interruption. The reason comes first, in one word and a colon.
func Terminating(why string) event.Event {
	return event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + why}
}
