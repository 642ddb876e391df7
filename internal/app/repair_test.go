package app

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// healer is a cloud with repair policies.
type healer struct {
	driver.Cloud

	list []cloud.Repair
}

func (h healer) Gates() []cloud.Gate { return nil }

func (h healer) Priced() bool { return true }

func (h healer) Repairs() []cloud.Repair { return h.list }

// V15-02, V15-03, V15-33: what the settings make of the policies of the cloud, and when the start fails.
func TestReadRepairs(t *testing.T) {
	t.Parallel()
	fine := []cloud.Repair{{Condition: "Ready", Status: "False", Toleration: time.Minute, Action: cloud.ReplaceNode}}
	bad := []cloud.Repair{{Condition: "Ready", Status: "False", ReasonRegex: "(", Priority: 200, Action: cloud.ReplaceNode}}
	for name, tc := range map[string]struct {
		gate, legacy     bool
		list             []cloud.Repair
		method, fallBack bool
		want             []string // of the error
	}{
		"the gate is off":                {list: bad},
		"legacy without the gate":        {legacy: true, list: bad},
		"the method":                     {gate: true, list: fine, method: true},
		"legacy":                         {gate: true, legacy: true, list: fine, fallBack: true},
		"no policy":                      {gate: true, want: []string{"NodeRepair", "no repair policy"}},
		"legacy, no policy":              {gate: true, legacy: true, fallBack: true},
		"a policy that makes no sense":   {gate: true, list: bad, want: []string{"regex", "priority 200", "fallback"}},
		"legacy, a regex that is none":   {gate: true, legacy: true, list: bad, want: []string{"reason regex"}},
		"legacy does not mind the other": {gate: true, legacy: true, list: []cloud.Repair{{Condition: "A", Priority: 200, Action: cloud.ReplaceNode}}, fallBack: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &core{connected: healer{list: tc.list}, clock: &clock{}}
			c.cfg = config.Config{Gates: config.Gates{NodeRepair: tc.gate}, Compat: config.Compat{LegacyNodeRepair: tc.legacy}}
			err := c.readRepairs()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if err == nil && ((c.repairs != nil) != tc.method || (c.legacyPolicies != nil) != tc.fallBack) {
				t.Errorf("method %v, legacy %v", c.repairs, c.legacyPolicies)
			}
		})
	}
}
