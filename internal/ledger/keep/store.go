package keep

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/ledger"
)

// How often requests are sent.
const (
	afterDecision = 10 * time.Second // a decision is stored at most this often
	afterCosts    = time.Minute      // and costs without a decision
	afterFailure  = 30 * time.Second
	atTheEnd      = 5 * time.Second // the last write may take this long
	requestWithin = 10 * time.Second
	conflicts     = 5 // that one write survives
)

// What the ConfigMaps are known by.
const (
	Label       = "dovetail.sh/part-of"
	LabelValue  = "ledger"
	dataKey     = "segment"
	annotation  = "dovetail.sh/description"
	description = "A part of Dovetail's ledger: decisions, and what the cluster cost. Written by the leader. Delete all with: kubectl delete configmaps -l " +
		Label + "=" + LabelValue + "; only history is lost."
)

// Names are the ConfigMaps, by the number of the segment.
func Names() []string {
	names := make([]string, ledger.NumSegments)
	for i := range names {
		names[i] = fmt.Sprintf("dovetail-ledger-%02d", i)
	}
	return names
}

// Store keeps a Ledger in ConfigMaps as long as this process leads. It must not be copied.
type Store struct {
	Ledger    *Ledger
	Client    client.Client
	Reader    client.Reader // of the API server itself: a cache would watch all ConfigMaps
	Namespace string

	read    bool // once what was stored is part of the Ledger
	closed  bool // written by a later version: nothing may be overwritten
	stored  map[int]storedSegment
	said    string // that was logged last
	changed uint64 // of the Book when it was written
}

// storedSegment is what is known of a ConfigMap.
type storedSegment struct {
	version string // empty: there is none
	digest  [sha256.Size]byte
	stamp   uint64 // of the segment that is the content; 0: not known
}

// NewStore returns a Store for a Ledger, whose costs begin once Start has read what was stored.
func NewStore(l *Ledger, c client.Client, reader client.Reader, namespace string) *Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading, l.note = true, ""
	return &Store{Ledger: l, Client: c, Reader: reader, Namespace: namespace, stored: map[int]storedSegment{}}
}

// NeedLeaderElection says that only the leader reads and writes.
func (s *Store) NeedLeaderElection() bool { return true }

// Start reads what was stored, and writes what changes until the context ends, and then once more.
func (s *Store) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("ledger"))
	wait := s.turn(ctx)
	last := time.Now()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), atTheEnd)
			defer cancel()
			if s.read && !s.closed {
				s.report(ctx, s.write(last))
			}
			return nil
		case <-timer.C:
		}
		if s.read && !s.decided() && time.Since(last) < afterCosts {
			wait = afterDecision
			continue
		}
		wait, last = s.turn(ctx), time.Now()
	}
}

// decided reports whether there is something new besides costs.
func (s *Store) decided() bool {
	s.Ledger.mu.Lock()
	defer s.Ledger.mu.Unlock()
	return s.Ledger.book.Changed() != s.changed
}

// turn reads if nothing was read yet, and writes. It returns when to try again.
func (s *Store) turn(ctx context.Context) time.Duration {
	err := s.begin(ctx)
	if err == nil && !s.closed {
		err = s.write(ctx)
	}
	s.report(ctx, err)
	if err != nil {
		return afterFailure
	}
	return afterDecision
}

// begin reads what was stored before this process led.
func (s *Store) begin(ctx context.Context) error {
	if s.read {
		return nil
	}
	earlier, err := s.load(ctx)
	s.Ledger.mu.Lock()
	defer s.Ledger.mu.Unlock()
	s.Ledger.reading = false // without it, the ledger begins now
	if err != nil {
		return fmt.Errorf("the ledger cannot be read, and is kept in memory: %w", err)
	}
	s.Ledger.book.Precede(earlier)
	s.Ledger.totals.skip(s.Ledger.book.Total())
	s.read = true
	return nil
}

// load reads all ConfigMaps.
func (s *Store) load(ctx context.Context) (*ledger.Book, error) {
	stored, segments := map[int]storedSegment{}, map[int][]byte{}
	for number, name := range Names() {
		m := &corev1.ConfigMap{}
		err := s.get(ctx, name, m)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, s.explained(err)
		default:
			content := m.BinaryData[dataKey]
			stored[number], segments[number] = storedSegment{version: m.ResourceVersion, digest: sha256.Sum256(content)}, content
		}
	}
	book, problems := ledger.Decode(ledger.DefaultLimits(), segments)
	for _, err := range problems {
		if later, is := errors.AsType[ledger.LaterVersionError](err); is {
			s.closed = true
			s.Ledger.setNote("it is kept in memory only: " + later.Error() + "; upgrade Dovetail, or delete the ConfigMaps with the label " + Label + "=" + LabelValue)
		}
		log.FromContext(ctx).Error(err, "a part of the ledger is lost", "namespace", s.Namespace, "label", Label+"="+LabelValue)
	}
	s.stored = stored
	return book, nil
}

func (s *Store) get(ctx context.Context, name string, m *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	return s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, m)
}

// write stores what changed. Sealed segments come before the head, which does not have their events any more.
func (s *Store) write(ctx context.Context) error {
	for range conflicts {
		changed, err := s.writeOnce(ctx)
		switch {
		case err == nil:
			s.changed = changed
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return err
		}
		if err := s.reload(ctx); err != nil {
			return err
		}
		if s.closed {
			return nil
		}
	}
	return errors.New("others write the ConfigMaps of the ledger at the same time; there must be one leader only")
}

// reload merges what is stored with what this process has, after another process was faster.
func (s *Store) reload(ctx context.Context) error {
	book, err := s.load(ctx)
	if err != nil {
		return err
	}
	s.Ledger.mu.Lock()
	defer s.Ledger.mu.Unlock()
	book.Merge(s.Ledger.book)
	s.Ledger.book = book
	return nil
}

// writeOnce writes the segments that changed, and returns what state of the Book that was.
func (s *Store) writeOnce(ctx context.Context) (changed uint64, err error) {
	type piece struct {
		number  int
		stamp   uint64
		content []byte
	}
	var pieces []piece
	s.Ledger.mu.Lock()
	changed = s.Ledger.book.Changed()
	for _, segment := range s.Ledger.book.Segments() {
		known := s.stored[segment.Number]
		if segment.Empty && known.version == "" || segment.Stamp != 0 && segment.Stamp == known.stamp {
			continue
		}
		pieces = append(pieces, piece{segment.Number, segment.Stamp, segment.Encode()})
	}
	s.Ledger.mu.Unlock()
	for _, p := range pieces {
		known := s.stored[p.number]
		digest := sha256.Sum256(p.content)
		if known.version == "" || known.digest != digest {
			if known.version, err = s.put(ctx, p.number, known.version, p.content); err != nil {
				return changed, err
			}
		}
		s.stored[p.number] = storedSegment{version: known.version, digest: digest, stamp: p.stamp}
	}
	return changed, nil
}

// put writes a ConfigMap whose version is known, and returns its new version.
func (s *Store) put(ctx context.Context, number int, version string, content []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: Names()[number], ResourceVersion: version,
			Labels: map[string]string{Label: LabelValue, "app.kubernetes.io/managed-by": "dovetail"}, Annotations: map[string]string{annotation: description},
		},
		BinaryData: map[string][]byte{dataKey: content},
	}
	if version == "" {
		err := s.Client.Create(ctx, m)
		return m.ResourceVersion, s.explained(err)
	}
	err := s.Client.Update(ctx, m)
	if apierrors.IsNotFound(err) { // a user deleted it
		m.ResourceVersion = ""
		err = s.Client.Create(ctx, m)
	}
	return m.ResourceVersion, s.explained(err)
}

// explained adds the rule that is missing.
func (s *Store) explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; allow the service account to get and update configmaps %s, and to create configmaps, in namespace %s (value settings.ledger of the chart)", err, strings.Join(Names(), ", "), s.Namespace)
}

// report logs a failure once, and has responses say it until it is over.
func (s *Store) report(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if !s.closed {
		s.Ledger.setNote(text)
	}
	if text != "" && text != s.said {
		log.FromContext(ctx).Error(nil, "the ledger is not stored", "reason", text)
	}
	if text == "" && s.said != "" {
		log.FromContext(ctx).Info("the ledger is stored again")
	}
	s.said = text
}

// setNote says why the ledger is not stored; empty: it is.
func (l *Ledger) setNote(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note = text
}
