package pool_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// LC-46, LC-47, LC-48, FM C17: how many claims a static pool makes or gives up, and which first, as a script;
// go test ./internal/pool -run TestStaticScript -rewrite
func TestStaticScript(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/static.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd != "scale" {
			d.Fatalf(t, "command %q is not known; want scale", d.Cmd)
		}
		var replicas int64
		var limit string
		d.ScanArgs(t, "replicas", &replicas)
		if d.HasArg("limit") {
			d.ScanArgs(t, "limit", &limit)
		}
		f := pool.StaticFacts{Pool: fixed(replicas, limit), Loads: map[string]cluster.ClaimLoad{}, Now: staticNow}
		for line := range strings.Lines(d.Input) {
			claim, load := staticClaim(t, d, strings.Fields(line))
			f.Claims, f.Loads[claim.Name] = append(f.Claims, claim), load
		}
		step := pool.Scale(f)
		slices.Reverse(f.Claims)
		var out strings.Builder
		if step.Create > 0 {
			fmt.Fprintf(&out, "makes %d\n", step.Create)
		}
		if step.AtLimit {
			out.WriteString("is at its limit\n")
		}
		for i, c := range step.Delete {
			if other := pool.Scale(f).Delete[i]; other.Name != c.Name {
				d.Fatalf(t, "%s or %s goes, as they are listed", c.Name, other.Name)
			}
			out.WriteString("gives up " + c.Name + "\n")
		}
		return out.String()
	})
}

// staticClaim reads a line such as: NAME [unlaunched] [going] [held] [cost=6] [protected] [life=2h] [age=1h].
func staticClaim(t *testing.T, d *datadriven.TestData, words []string) (*karpv1.NodeClaim, cluster.ClaimLoad) {
	t.Helper()
	claim, load := launched(words[0]), cluster.ClaimLoad{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "unlaunched":
			unlaunched(claim)
		case "going":
			going(claim)
		case "held":
			load.Held = true
		case "protected":
			load.Protected = true
		case "cost":
			load.Pods = true
			if _, err := fmt.Sscan(value, &load.Cost); err != nil {
				d.Fatalf(t, "%s: %v", word, err)
			}
		case "life":
			claim.Spec.ExpireAfter = karpv1.Duration(value)
		case "age":
			age, err := time.ParseDuration(value)
			if err != nil {
				d.Fatalf(t, "%s: %v", word, err)
			}
			claim.CreationTimestamp.Time = staticNow.Add(-age)
		default:
			d.Fatalf(t, "%s is not known", word)
		}
	}
	return claim, load
}
