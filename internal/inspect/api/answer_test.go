package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// The web page shows the documents of responses, so that it says what the terminal says.
func TestWP_10_ResponsesWithTheirDocuments(t *testing.T) {
	t.Parallel()
	h := api.Handler(&snapshot.Service{File: snapshottest.New(snapshottest.Options{Nodes: 2}), Words: awsv1.Vocabulary()})
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		document           bool
	}{
		"the fleet":                     {http.MethodGet, "fleet", "", http.StatusOK, false},
		"an explanation":                {http.MethodGet, "explain?kind=node&name=node-0000", "", http.StatusOK, false},
		"an explanation and document":   {http.MethodGet, "explain?kind=node&name=node-0000&document=true", "", http.StatusOK, true},
		"a node that does not exist":    {http.MethodGet, "explain?kind=node&name=node-9999&document=true", "", http.StatusNotFound, false},
		"a plan":                        {http.MethodPost, "plan?document=false", "", http.StatusOK, false},
		"a plan and its document":       {http.MethodPost, "plan?document=true", "{}", http.StatusOK, true},
		"an unknown change":             {http.MethodPost, "plan?document=true", `{"delete":["everything"]}`, http.StatusBadRequest, false},
		"a parameter that is no bool":   {http.MethodPost, "plan?document=perhaps", "", http.StatusBadRequest, false},
		"a parameter that is not known": {http.MethodPost, "plan?dryRun=true", "", http.StatusBadRequest, false},
		"the history":                   {http.MethodGet, "history?limit=200", "", http.StatusOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tc.method, api.Prefix+tc.path, strings.NewReader(tc.body)))
			if w.Code != tc.status || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Fatalf("got status %d, headers %v, %s", w.Code, w.Header(), w.Body)
			}
			var got struct{ Document *inspect.Document }
			if tc.status == http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
			}
			if (got.Document != nil) != tc.document || tc.document && got.Document.Answer == "" {
				t.Errorf("got document %+v, want one: %v", got.Document, tc.document)
			}
		})
	}
}
