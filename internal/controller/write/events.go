package write

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Emitter sends events; the recorder of internal/report is one.
type Emitter interface {
	Emit(obj client.Object, events ...event.Event)
}

// Announcer is an emitter that also reports which conditions changed.
type Announcer interface {
	Emitter
	Flips(obj client.Object, flips []condition.Flip)
}
