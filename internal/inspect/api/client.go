package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

const (
	mostText    = 4 << 10 // bytes of an error that are shown
	mostRetries = 3       // of a request that is to be repeated
)

// Client sends requests to a controller. It implements inspect.Service.
type Client struct {
	base   string // without a slash at the end
	token  string
	who    string // the controller, for errors
	http   *http.Client
	closed func()
}

// NewClient returns a Client for the metrics port of a controller at an address, such as http://localhost:8080.
func NewClient(address, token string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the address %q of the controller is not a URL such as http://localhost:8080", address)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && token != "" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s would send your token unencrypted over the network; leave the address out, or forward the port with kubectl and use http://localhost", address)
	}
	return &Client{base: strings.TrimSuffix(address, "/"), token: token, who: "the controller at " + address, http: &http.Client{}, closed: func() {}}, nil
}

// Close ends the connection.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.closed()
}

// UnavailableError says that a controller does not respond to queries, why, and what to do.
type UnavailableError struct {
	Who string // the controller
	Why string
	Fix string
}

// Error is all of it.
func (e UnavailableError) Error() string {
	text := e.Who + " " + e.Why
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// Fleet implements inspect.Service.
func (c *Client) Fleet(ctx context.Context) (f inspect.Fleet, err error) {
	err = c.request(ctx, http.MethodGet, pathFleet, nil, &f)
	f.Source = strings.Replace(c.who, "the controller", "leader", 1)
	return f, err
}

// Explain implements inspect.Service.
func (c *Client) Explain(ctx context.Context, about inspect.Subject) (e inspect.Explanation, err error) {
	err = c.request(ctx, http.MethodGet, pathExplain+"?"+subjectValues(about).Encode(), nil, &e)
	return e, err
}

// History implements inspect.Service.
func (c *Client) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	if query.Limit == inspect.AllEvents {
		return c.wholeHistory(ctx, query)
	}
	return c.historyPart(ctx, query)
}

func (c *Client) historyPart(ctx context.Context, query inspect.HistoryQuery) (h inspect.History, err error) {
	err = c.request(ctx, http.MethodGet, pathHistory+"?"+historyValues(&query).Encode(), nil, &h)
	return h, err
}

// wholeHistory requests one part after the other, the latest first: a response is bounded.
func (c *Client) wholeHistory(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	query.Limit = mostEvents
	whole, err := c.historyPart(ctx, query)
	for full := len(whole.Events) == mostEvents; full && err == nil; {
		oldest := whole.Events[0].At
		query.Until = oldest.Add(time.Nanosecond) // others may have happened at the same time
		var part inspect.History
		part, err = c.historyPart(ctx, query)
		full = len(part.Events) == mostEvents
		part.Events = unknown(part.Events, whole.Events)
		if full && len(part.Events) == 0 {
			return whole, fmt.Errorf("more than %d events happened at %s, and %s sends no more at once; ask for those before with --until", mostEvents, oldest.Format(time.RFC3339Nano), c.who)
		}
		whole.Events, whole.Notes = append(part.Events, whole.Events...), part.Notes
	}
	return whole, err
}

// unknown returns the events of a part that are not among those known, which begin when it ends.
func unknown(part, known []inspect.Event) []inspect.Event {
	seen := map[string]bool{}
	for i := range known {
		if !known[i].At.Equal(known[0].At) {
			break
		}
		seen[eventKey(&known[i])] = true
	}
	return slices.DeleteFunc(part, func(e inspect.Event) bool { return seen[eventKey(&e)] })
}

// eventKey is the same for the same event.
func eventKey(e *inspect.Event) string {
	return e.At.Format(time.RFC3339Nano) + " " + e.Kind + " " + e.ID + " " + e.Text
}

// Savings implements inspect.Service.
func (c *Client) Savings(ctx context.Context, query inspect.SavingsQuery) (s inspect.Savings, err error) {
	err = c.request(ctx, http.MethodGet, pathSavings+"?"+savingsValues(&query).Encode(), nil, &s)
	return s, err
}

// Plan implements inspect.Service.
func (c *Client) Plan(ctx context.Context, change inspect.WhatIf) (changes inspect.Changes, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return changes, err
	}
	err = c.request(ctx, http.MethodPost, pathPlan, body, &changes)
	return changes, err
}

// Snapshot returns the cluster as a file.
func (c *Client) Snapshot(ctx context.Context) (*snapshot.File, error) {
	body, err := c.send(ctx, http.MethodGet, pathSnapshot, nil)
	if err != nil {
		return nil, err
	}
	return snapshot.Decode(bytes.NewReader(body))
}

// request sends a request and decodes the response into a value.
func (c *Client) request(ctx context.Context, method, path string, body []byte, into any) error {
	text, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the response of %s to %s cannot be read; use the same version of dovetail as the controller: %w", c.who, path, err)
	}
	return nil
}

// send sends a request, and repeats it while the controller is busy with another one.
func (c *Client) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	for tries := 1; ; tries++ {
		text, again, err := c.sendOnce(ctx, method, path, body)
		if again <= 0 || tries > mostRetries {
			return text, err
		}
		wait := time.NewTimer(again)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		}
	}
}

// sendOnce sends a question once. again is when to repeat it; 0: not.
func (c *Client) sendOnce(ctx context.Context, method, path string, body []byte) (text []byte, again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		cause := err
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			cause = wrapped.Err
		}
		return nil, 0, UnavailableError{Who: c.who, Why: "does not respond: " + cause.Error(), Fix: "check that it runs, and that its metrics port is the one of its pod"}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		text, err = io.ReadAll(resp.Body)
		return text, 0, err
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, mostText)) // what there is
	if resp.StatusCode == http.StatusTooManyRequests {
		again = retryAfterOf(resp.Header)
	}
	return nil, again, c.failure(resp, strings.TrimSpace(string(said)))
}

func retryAfterOf(h http.Header) time.Duration {
	if wait, err := time.ParseDuration(h.Get("Retry-After") + "s"); err == nil && wait > 0 {
		return min(wait, retryAfter)
	}
	return time.Second
}

// failure says what a response other than 200 means.
func (c *Client) failure(resp *http.Response, said string) error {
	switch resp.StatusCode {
	case http.StatusNotFound:
		var missing inspect.NotFoundError
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && json.Unmarshal([]byte(said), &missing) == nil {
			return missing
		}
		return UnavailableError{
			Who: c.who, Why: "does not serve this endpoint: it is Karpenter, an older version of Dovetail, or runs with --serve-decisions=false",
			Fix: "upgrade it, or set SERVE_DECISIONS=true",
		}
	case http.StatusUnauthorized:
		return UnavailableError{Who: c.who, Why: "does not accept your token: " + said, Fix: "log in again, and check it with kubectl auth whoami"}
	case http.StatusForbidden:
		return UnavailableError{Who: c.who, Why: "denied the request: " + said, Fix: grantText}
	case http.StatusServiceUnavailable:
		return UnavailableError{Who: c.who, Why: "cannot respond now: " + said, Fix: "try again in a few seconds"}
	case http.StatusNotImplemented:
		return fmt.Errorf("%s: %s", c.who, said)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s is busy: %s", c.who, said)
	}
	return fmt.Errorf("%s responded to the question with status %d: %s", c.who, resp.StatusCode, said)
}

// grantText is how a user gets the permission.
const grantText = "an administrator grants the right with: kubectl create clusterrole dovetail-inspect --verb=get --non-resource-url=" + journal.Path +
	" && kubectl create clusterrolebinding dovetail-inspect --clusterrole=dovetail-inspect --user=YOU"
