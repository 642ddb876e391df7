package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// The questions of a cluster with 1,000 nodes and 10,000 pods take less than a second, with a view that is made for each.
func BenchmarkQuestions(b *testing.B) {
	c := newController(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 20})
	for _, question := range []string{"fleet", "explain?kind=node&name=node-0500", "explain?kind=pod&namespace=default&name=pending-0001", "explain?kind=nodepool&name=default"} {
		b.Run(question, func(b *testing.B) {
			s := c.server(b)
			b.ReportAllocs()
			for b.Loop() {
				c.later(time.Minute)
				if w := send(s, http.MethodGet, api.Prefix+question, ""); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
