package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// emitter sends events; the recorder of internal/report is one.
type emitter interface {
	Emit(obj client.Object, events ...event.Event)
}

// announcer is an emitter that also tells which conditions changed.
type announcer interface {
	emitter
	Flips(obj client.Object, flips []condition.Flip)
}
