package loop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// steps counts the progress of a loop.
type steps struct{ count int }

func (*steps) Begin()  {}
func (s *steps) Beat() { s.count++ }
func (*steps) Done()   {}

// wire responds to requests, or not.
type wire struct{ err error }

func (w wire) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, w.err
}

// Trust C04: a response of the API server, even an error, is progress of the loop that sent the request, and of no other. A request
// without a response is none.
func TestTrust_C04_ResponsesAreProgress(t *testing.T) {
	t.Parallel()
	one, two := &steps{}, &steps{}
	query := func(ctx context.Context, err error) {
		response, got := BeatOnResponse(wire{err}).RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode != http.StatusTooManyRequests || !errors.Is(got, err) {
			t.Errorf("answer %v, error %v, want %v", response, got, err)
		}
	}
	ctx := WithPulse(t.Context(), one)
	query(ctx, nil)
	query(WithPulse(t.Context(), two), errors.New("connection refused"))
	query(t.Context(), nil)
	if one.count != 1 || two.count != 0 {
		t.Errorf("%d and %d steps, want one of the loop that was served", one.count, two.count)
	}
}
