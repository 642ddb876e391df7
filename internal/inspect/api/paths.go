package api

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Prefix is the common start of the paths that questions are served on.
const Prefix = "/debug/inspect/"

const (
	pathFleet    = Prefix + "fleet"
	pathExplain  = Prefix + "explain"
	pathHistory  = Prefix + "history"
	pathSavings  = Prefix + "savings"
	pathPlan     = Prefix + "plan"
	pathSnapshot = Prefix + "snapshot"
)

const (
	mostEvents  = 1000 // that a request may want
	longestName = 253
)

// Parameters of requests.
const (
	paramKind      = "kind"
	paramNamespace = "namespace"
	paramName      = "name"
	paramSince     = "since"
	paramUntil     = "until"
	paramEvent     = "event"
	paramLimit     = "limit"
	paramDocument  = "document"
)

// subjectValues writes a subject as parameters.
func subjectValues(s inspect.Subject) url.Values {
	v := url.Values{}
	set(v, paramKind, string(s.Kind))
	set(v, paramNamespace, s.Namespace)
	set(v, paramName, s.Name)
	return v
}

// historyValues writes a query as parameters.
func historyValues(q *inspect.HistoryQuery) url.Values {
	v := subjectValues(q.Object)
	setPeriod(v, q.Since, q.Until)
	set(v, paramEvent, strings.Join(q.Kinds, ","))
	if q.Limit > 0 {
		set(v, paramLimit, strconv.Itoa(q.Limit))
	}
	return v
}

// savingsValues writes a query as parameters.
func savingsValues(q *inspect.SavingsQuery) url.Values {
	v := url.Values{}
	setPeriod(v, q.Since, q.Until)
	return v
}

func setPeriod(v url.Values, since, until time.Time) {
	if !since.IsZero() {
		set(v, paramSince, since.Format(time.RFC3339Nano))
	}
	if !until.IsZero() {
		set(v, paramUntil, until.Format(time.RFC3339Nano))
	}
}

func set(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

// readParams reads parameters of which each is given at most once. What it does not know it refuses: a misspelt filter would
// show everything.
func readParams(raw string, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query cannot be read: %w", err)
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is unknown; use %s", name, strings.Join(known, ", "))
		}
		if len(values[name]) != 1 {
			return nil, fmt.Errorf("%q is given %d times; give it once", name, len(values[name]))
		}
		out[name] = values[name][0]
	}
	return out, nil
}

// readSubject reads a subject. It is complete, or absent where that is allowed.
func readSubject(params map[string]string, optional bool) (inspect.Subject, error) {
	s := inspect.Subject{Kind: inspect.Kind(params[paramKind]), Namespace: params[paramNamespace], Name: params[paramName]}
	if optional && s == (inspect.Subject{}) {
		return s, nil
	}
	kinds := []inspect.Kind{inspect.KindPod, inspect.KindNode, inspect.KindNodeClaim, inspect.KindNodePool}
	switch {
	case !slices.Contains(kinds, s.Kind):
		return s, fmt.Errorf("kind=%q is not known; use pod, node, nodeclaim or nodepool", s.Kind)
	case s.Name == "" || len(s.Name) > longestName:
		return s, fmt.Errorf("name=%q is not the name of an object", s.Name)
	case (s.Kind == inspect.KindPod) == (s.Namespace == "") || len(s.Namespace) > longestName:
		return s, fmt.Errorf("namespace=%q does not fit: a pod has one, and a %s, %s or %s has none", s.Namespace, inspect.KindNode, inspect.KindNodeClaim, inspect.KindNodePool)
	}
	return s, nil
}

// parseHistory reads a query.
func parseHistory(raw string) (inspect.HistoryQuery, error) {
	params, err := readParams(raw, paramKind, paramNamespace, paramName, paramSince, paramUntil, paramEvent, paramLimit)
	if err != nil {
		return inspect.HistoryQuery{}, err
	}
	var q inspect.HistoryQuery
	if q.Object, err = readSubject(params, true); err != nil {
		return q, err
	}
	if q.Since, err = readTime(params, paramSince); err != nil {
		return q, err
	}
	if q.Until, err = readTime(params, paramUntil); err != nil {
		return q, err
	}
	if text := params[paramEvent]; text != "" {
		q.Kinds = strings.Split(text, ",")
	}
	if text := params[paramLimit]; text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostEvents {
			return q, fmt.Errorf("limit=%q is not a number from 1 to %d", text, mostEvents)
		}
	}
	return q, nil
}

// parseSavings reads a query.
func parseSavings(raw string) (q inspect.SavingsQuery, err error) {
	params, err := readParams(raw, paramSince, paramUntil)
	if err != nil {
		return q, err
	}
	if q.Since, err = readTime(params, paramSince); err != nil {
		return q, err
	}
	q.Until, err = readTime(params, paramUntil)
	return q, err
}

// readTime reads a time. None is the zero time.
func readTime(params map[string]string, name string) (at time.Time, err error) {
	if text := params[name]; text != "" {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return at, fmt.Errorf("%s=%q is not a time such as 2026-11-01T12:00:00Z", name, text)
		}
	}
	return at, nil
}

// parseExplain reads what is to be explained, and whether its document is wanted too.
func parseExplain(raw string) (about inspect.Subject, document bool, err error) {
	params, err := readParams(raw, paramKind, paramNamespace, paramName, paramDocument)
	if err != nil {
		return about, false, err
	}
	if about, err = readSubject(params, false); err != nil {
		return about, false, err
	}
	document, err = readBool(params, paramDocument)
	return about, document, err
}

// parsePlan reads whether the document of a plan is wanted too.
func parsePlan(raw string) (document bool, err error) {
	params, err := readParams(raw, paramDocument)
	if err != nil {
		return false, err
	}
	return readBool(params, paramDocument)
}

func readBool(params map[string]string, name string) (bool, error) {
	switch text := params[name]; text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s=%q is not true or false", name, text)
	}
}
