package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// LC-16, CV-14, FM N08: when claims expire and how hard they go then, as a script;
// go test ./internal/lifecycle -run TestExpiryScript -rewrite
func TestExpiryScript(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/expire.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd != "claim" {
			d.Fatalf(t, "command %q is not known; want claim", d.Cmd)
		}
		born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: metav1.NewTime(born)}}
		var pool *karpv1.NodePool
		read := func(name string) (text string) {
			if d.HasArg(name) {
				d.ScanArgs(t, name, &text)
			}
			return text
		}
		if d.HasArg("pool") {
			pool = &karpv1.NodePool{}
			pool.Spec.Template.Spec.ExpireAfter = karpv1.Duration(read("pool"))
		}
		claim.Spec.ExpireAfter, claim.Spec.TerminationGracePeriod = karpv1.Duration(read("life")), karpv1.Duration(read("period"))
		passed, err := time.ParseDuration(read("age"))
		if err != nil {
			d.Fatalf(t, "age: %v", err)
		}
		effective, _ := claim.Effective(pool, false)
		at, expires := lifecycle.Expiry(effective)
		switch left := at.Sub(born.Add(passed)); {
		case !expires:
			return "stays\n"
		case left > 0:
			return fmt.Sprintf("stays for %s\n", left)
		default:
			return "goes, " + lifecycle.TerminationMode(effective) + "\n"
		}
	})
}
