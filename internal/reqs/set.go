package reqs

import (
	"maps"
	"slices"
	"strings"
)

// Set is a conjunction of requirements by label key. A key that is absent is not constrained, and not
// defined either: Compatible distinguishes the two. The nil Set is empty and usable.
type Set map[string]Req

// Add combines r with what the set says about key so far. It reports whether the two can hold
// together; if they cannot, the key ends up as DoesNotExist, which on its own looks satisfiable.
func (s *Set) Add(key string, r Req) bool {
	if *s == nil {
		*s = Set{}
	}
	old, defined := (*s)[key]
	if !defined {
		(*s)[key] = r
		return true
	}
	(*s)[key] = old.Intersect(r)
	return old.agreesWith(r)
}

// Intersect returns a new set with the keys of both, combined where both define one.
func (s Set) Intersect(other Set) Set {
	both := make(Set, max(len(s), len(other)))
	maps.Copy(both, s)
	for key, r := range other {
		if old, defined := both[key]; defined {
			r = old.Intersect(r)
		}
		both[key] = r
	}
	return both
}

// Conflict returns the smallest key that both define and that they disagree on: no value is allowed
// by both, and at least one of them needs the label to be there. Conflict is symmetric.
func (s Set) Conflict(other Set) (key string, found bool) {
	// any order: the smallest key is kept
	for k, r := range s {
		if o, both := other[k]; both && (!found || k < key) && !r.agreesWith(o) {
			key, found = k, true
		}
	}
	return key, found
}

// Allows reports whether the label may have the value. An absent key allows everything.
func (s Set) Allows(key, value string) bool {
	r, defined := s[key]
	return !defined || r.Has(value)
}

// Keys returns the keys in order.
func (s Set) Keys() []string { return slices.Sorted(maps.Keys(s)) }

// Equal reports whether both sets define the same keys with equal requirements.
func (s Set) Equal(other Set) bool { return maps.EqualFunc(s, other, Req.Equal) }

// Clone returns a set that can be added to without changing s. The clone of nil is an empty Set.
func (s Set) Clone() Set {
	c := make(Set, len(s))
	maps.Copy(c, s)
	return c
}

// Requirements returns the set in API form, ordered by key.
func (s Set) Requirements() []Entry {
	entries := make([]Entry, 0, len(s))
	for _, key := range s.Keys() {
		entries = append(entries, s[key].Requirements(key)...)
	}
	return entries
}

// String renders the set for people, ordered by key: "arch In [amd64]; zone NotIn [a]".
func (s Set) String() string {
	parts := make([]string, 0, len(s))
	for _, key := range s.Keys() {
		parts = append(parts, key+" "+s[key].String())
	}
	return strings.Join(parts, "; ")
}

// Options say how Compatible treats keys the node side leaves undefined.
type Options struct {
	// AllowUndefined are the keys that the node side may leave undefined although the pod side has requirements
	// for them: Vocabulary.WellKnownKeys for a new node, whose labels the cloud will supply, and nil
	// for an existing node.
	AllowUndefined map[string]bool
}

// Mismatch is why a pod's set is not compatible with a node's.
type Mismatch struct {
	Key       string
	Want      Req  // the pod side
	Have      Req  // the node side; meaningless if Undefined
	Undefined bool // the node side does not define the key
}

// Compatible reports whether a pod with these requirements can run on the node side, and if not the
// mismatch on the smallest key. A key only the pod side defines must be satisfied by the label's
// absence, unless opts allows it to be undefined. On a key both define they must overlap, unless the
// label's absence satisfies both.
func Compatible(pod, node Set, opts Options) (why Mismatch, ok bool) {
	ok = true
	// any order: the smallest key is kept
	for key, want := range pod {
		if !ok && key > why.Key {
			continue
		}
		have, defined := node[key]
		switch {
		case defined && want.agreesWith(have):
		case !defined && (want.Negative() || opts.AllowUndefined[key]):
		default:
			why, ok = Mismatch{Key: key, Want: want, Have: have, Undefined: !defined}, false
		}
	}
	return why, ok
}
