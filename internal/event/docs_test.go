package event_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/event"
)

func TestDocsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[event.Reason]bool{}
	for _, d := range event.Docs() {
		if seen[d.Reason] {
			t.Errorf("%s is documented twice", d.Reason)
		}
		seen[d.Reason] = true
		if len(d.On) == 0 || d.When == "" || d.Every <= 0 || (d.PerSecond > 0) != (d.Burst > 0) {
			t.Errorf("%s: %+v", d.Reason, d)
		}
		if got := event.Lookup(d.Reason); got.When != d.When {
			t.Errorf("Lookup(%s) = %+v", d.Reason, got)
		}
	}
	if got := event.Lookup("Launched"); got.Warning || got.Every != 2*time.Minute {
		t.Errorf("the name of a condition is %+v", got)
	}
}

// Reasons, types and objects of events are API (operations 9, V15-61, V15-74).
func TestCompatibleEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compat/events.txt")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]event.Doc{}
	for _, d := range event.Docs() {
		docs[string(d.Reason)] = d
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		d, found := docs[fields[0]]
		if !found || d.Warning != (fields[1] == "Warning") {
			t.Errorf("%s: have %+v, want it as %s", fields[0], d, fields[1])
			continue
		}
		if diff := cmp.Diff(slices.Sorted(strings.SplitSeq(fields[2], ",")), slices.Sorted(slices.Values(d.On))); diff != "" {
			t.Errorf("objects of %s (-want +got):\n%s", fields[0], diff)
		}
	}
}
