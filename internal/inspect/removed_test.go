package inspect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// past knows events about one object.
type past struct {
	object inspect.Subject
	events []inspect.Event
}

func (p past) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	if q.Object != p.object {
		return inspect.History{}, nil
	}
	return inspect.History{Events: p.events}, nil
}

// EX-14: what was decided explains an object that is gone; of another, nothing is known.
func TestEX_14_RemovedObjects(t *testing.T) {
	t.Parallel()
	c, err := snapshottest.New(snapshottest.Options{Nodes: 1}).Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	gone := inspect.Subject{Kind: inspect.KindNode, Name: "gone"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := inspect.Local{Cluster: c, Past: past{gone, []inspect.Event{
		{At: at, Kind: "command", Text: "delete node gone, which is empty", Source: inspect.SourceLedger}, {At: at.Add(time.Minute), Kind: "outcome", Text: "done", Source: inspect.SourceLedger},
	}}}
	e, err := l.Explain(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	if want := "The cluster does not have node/gone any more. At 2026-01-02T03:04:05Z: delete node gone, which is empty."; e.Answer != want || len(e.History) != 2 {
		t.Errorf("got %q with %d events, want %q with 2", e.Answer, len(e.History), want)
	}
	d := e.Document()
	if len(d.Sections) != 1 || !strings.Contains(d.Sections[0].Title, "History") {
		t.Errorf("the document has %+v, want the history", d.Sections)
	}
	l.Past = past{gone, []inspect.Event{{At: at, Kind: "Ready", Text: "node is ready", Source: inspect.SourceEvents}}}
	if _, err := l.Explain(t.Context(), gone); err == nil {
		t.Error("events alone do not say that a node is gone: the user may not be allowed to read it")
	}
	_, err = l.Explain(t.Context(), inspect.Subject{Kind: inspect.KindNode, Name: "never"})
	if _, missing := errors.AsType[inspect.NotFoundError](err); !missing {
		t.Errorf("got %v, want that the node was not found", err)
	}
}
