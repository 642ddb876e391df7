package cloud

import "errors"

// Kind is what an error means to the caller.
type Kind int

// Kinds of errors. Anything that is not understood is Unknown, which is never read as "does not exist"
// or "no capacity".
const (
	Unknown     Kind = iota
	NotFound         // the instance does not exist
	NoCapacity       // insufficient capacity for everything that was allowed; also: the node class does not exist
	NotReady         // the node class is not ready, or its status lags its spec
	Throttled        // too many requests; the same request may be repeated later
	Denied           // not permitted, for a reason that a person has to change
	Invalid          // the request can never succeed as it is
	Unsupported      // the cloud has no such thing
)

// ErrUnevaluated is why a pool has no instance types before NodeOverlays were evaluated for it: nothing may be planned
// with prices that they are about to change.
var ErrUnevaluated = errors.New("NodeOverlays are not evaluated for the NodePool yet")

// Error is what a Provider returns instead of a result.
type Error struct {
	Kind    Kind
	Op      string // what was tried, such as "create fleet"
	Reason  string // for a condition: one CamelCase word, such as Unauthorized; empty: LaunchFailed
	Message string // for people, names the fix where one is known; empty: the text of Err
	Err     error
}

// Error is the operation and what went wrong.
func (e *Error) Error() string {
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of an error, Unknown for errors of others.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Unknown
}

// Is reports whether an error is of a kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
