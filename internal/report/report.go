package report

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// sink is where events go; a recorder of client-go is one. It never blocks.
type sink interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

const (
	maxNote   = 1024  // the longest text the API server takes
	maxAction = 128   // the longest action
	maxSeen   = 50000 // keys cached; past that repeats may be sent again
)

// Recorder sends events. It is safe for concurrent use.
type Recorder struct {
	// SilentFlips leaves out that conditions changed. It is set before the Recorder is used.
	SilentFlips bool

	sink sink
	now  func() time.Time

	mu     sync.Mutex
	docs   map[event.Reason]event.Doc
	limits map[event.Reason]flowcontrol.RateLimiter
	seen   map[key]time.Time // when the event may be sent again
}

type key struct {
	object string
	reason event.Reason
	text   string
}

// New returns a Recorder.
func New(sink sink, now func() time.Time) *Recorder {
	r := &Recorder{sink: sink, now: now, docs: map[event.Reason]event.Doc{}, limits: map[event.Reason]flowcontrol.RateLimiter{}, seen: map[key]time.Time{}}
	for _, doc := range event.Docs() {
		r.docs[doc.Reason] = doc
		if doc.PerSecond > 0 {
			r.limits[doc.Reason] = flowcontrol.NewTokenBucketRateLimiter(float32(doc.PerSecond), doc.Burst)
		}
	}
	return r
}

// Emit sends events about an object, unless they were sent a short time ago or there are too many. What
// was left out because of their number is sent when it is repeated.
func (r *Recorder) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		doc, documented := r.docs[e.Reason]
		if !documented {
			doc = event.Lookup(e.Reason)
		}
		if !r.recordIfDue(obj, e, doc) {
			continue
		}
		kind := corev1.EventTypeNormal
		if doc.Warning {
			kind = corev1.EventTypeWarning
		}
		r.sink.Eventf(obj, nil, kind, string(e.Reason), action(e), "%s", truncateText(e.Text, maxNote))
	}
}

// Flips emits events about the conditions of an object that changed.
func (r *Recorder) Flips(obj client.Object, flips []condition.Flip) {
	if r.SilentFlips {
		return
	}
	for _, f := range flips {
		if !isWorthEvent(f) {
			continue
		}
		from := f.From
		if from == "" {
			from = metav1.ConditionUnknown
		}
		text := "Status condition " + f.Type + " changed from " + string(from) + " to " + string(f.To) + ", reason " + f.Reason
		if f.Message != "" {
			text += ": " + f.Message
		}
		r.Emit(obj, event.Event{Reason: event.Reason(f.Type), Text: text, Key: string(from) + string(f.To) + f.Reason})
	}
}

// isWorthEvent reports whether a change of a condition is worth an event. Being created as Unknown is not, nor that a
// node is what was ordered, nor that pods came to it or went, which Consolidatable follows.
func isWorthEvent(f condition.Flip) bool {
	switch f.Type {
	case karpv1.ConditionConsolidatable:
		return false
	case karpv1.ConditionConsistentStateFound:
		return f.To != metav1.ConditionTrue || f.From == metav1.ConditionFalse
	default:
		return f.From != "" || f.To != metav1.ConditionUnknown
	}
}

// recordIfDue reports whether an event is no repeat, and records it.
func (r *Recorder) recordIfDue(obj client.Object, e event.Event, doc event.Doc) bool {
	id := string(obj.GetUID())
	if id == "" {
		id = obj.GetNamespace() + "/" + obj.GetName()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, k := r.now(), key{object: id, reason: e.Reason, text: e.Key}
	if until, sent := r.seen[k]; sent && now.Before(until) {
		return false
	}
	if _, pod := obj.(*corev1.Pod); pod {
		if limit := r.limits[e.Reason]; limit != nil && !limit.TryAccept() {
			return false
		}
	}
	if len(r.seen) >= maxSeen {
		r.dropExpiredKeys(now)
	}
	r.seen[k] = now.Add(doc.Every)
	return true
}

// dropExpiredKeys drops the keys whose events may be sent again, and all keys if that is not enough.
func (r *Recorder) dropExpiredKeys(now time.Time) {
	for k, until := range r.seen {
		if !now.Before(until) {
			delete(r.seen, k)
		}
	}
	if len(r.seen) >= maxSeen {
		clear(r.seen)
	}
}

// action distinguishes events of one reason: the API merges those that are equal in it and keeps only
// the first text, so the text is part of it.
func action(e event.Event) string {
	name := e.Key
	if name == "" {
		name = string(e.Reason)
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(e.Text)) // never fails
	return fmt.Sprintf("%s-%08x", truncateText(name, maxAction-9), sum.Sum32())
}

// truncateText shortens a text to a number of bytes and leaves its characters whole.
func truncateText(text string, most int) string {
	const dots = "..."
	if len(text) <= most {
		return text
	}
	end := most - len(dots)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}
