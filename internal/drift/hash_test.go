package drift_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
)

const fullPool = `
metadata: {name: p}
spec:
  weight: 10
  limits: {cpu: 100}
  disruption: {consolidateAfter: 1m, budgets: [{nodes: 20%}]}
  template:
    metadata:
      labels: {team: a, tier: web}
      annotations: {note: hello}
    spec:
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
      taints: [{key: a, value: x, effect: NoSchedule}, {key: b, effect: NoExecute}]
      startupTaints: [{key: s, effect: NoSchedule}]
      expireAfter: 48h
      terminationGracePeriod: 30m
`

func poolHash(t *testing.T, text string) string {
	t.Helper()
	p := &karpv1.NodePool{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	h, err := drift.PoolHash(p)
	if err != nil {
		t.Fatal(err)
	}
	return h.Sum
}

// The values below are frozen. A different value under the same version string replaces every node
// of every cluster at the next upgrade: change the version, not the table.
func TestHashesAreFrozen(t *testing.T) {
	t.Parallel()
	if drift.PoolHashVersion != "dovetail-1" {
		t.Fatal("a new hash version needs a table of its own")
	}
	for name, tc := range map[string]struct{ got, want string }{
		"API-8 full pool":           {poolHash(t, fullPool), "16476003225045367696"},
		"API-8 smallest pool":       {poolHash(t, "spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}"), "4910321577903426045"},
		"API-8 pool with a kubelet": {poolHash(t, "spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {cpuCFSQuota: false}}}}"), "111013461744681060"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: hash %s, frozen as %s", name, tc.got, tc.want)
		}
	}
}

func TestPoolHashChangesWithEveryStaticFieldAndNoOther(t *testing.T) {
	t.Parallel()
	base := poolHash(t, fullPool)
	for name, tc := range map[string]struct {
		oldnew     []string
		wantChange bool
	}{
		"API-8 label":                                   {[]string{"team: a", "team: b"}, true},
		"API-8 annotation":                              {[]string{"note: hello", "note: bye"}, true},
		"API-8 taint":                                   {[]string{"value: x", "value: y"}, true},
		"API-8 startup taint":                           {[]string{"key: s", "key: t"}, true},
		"API-8 taint becomes startup taint":             {[]string{", {key: b, effect: NoExecute}]", "]", "startupTaints: [", "startupTaints: [{key: b, effect: NoExecute}, "}, true},
		"API-8 node class":                              {[]string{"name: c}", "name: d}"}, true},
		"API-8 expireAfter":                             {[]string{"48h", "49h"}, true},
		"API-8 terminationGracePeriod":                  {[]string{"30m", "31m"}, true},
		"CV-06 kubelet":                                 {[]string{"expireAfter: 48h", "expireAfter: 48h\n      kubelet: {maxPods: 3}"}, true},
		"API-8 requirements are compared, not hashed":   {[]string{"amd64", "arm64"}, false},
		"API-8 weight":                                  {[]string{"weight: 10", "weight: 20"}, false},
		"API-8 limits":                                  {[]string{"cpu: 100", "cpu: 200"}, false},
		"API-8 disruption":                              {[]string{"20%", "30%", "1m", "2m"}, false},
		"API-8 name of the pool":                        {[]string{"{name: p}", "{name: q}"}, false},
		"API-8 order of taints":                         {[]string{"{key: a, value: x, effect: NoSchedule}, {key: b, effect: NoExecute}", "{key: b, effect: NoExecute}, {key: a, value: x, effect: NoSchedule}"}, false},
		"API-8 an empty value is no value":              {[]string{"key: b,", "key: b, value: '',"}, false},
		"API-8 an empty kubelet is none":                {[]string{"expireAfter: 48h", "expireAfter: 48h\n      kubelet: {}"}, false},
		"API-2.1 another spelling of the same duration": {[]string{"48h", "2880m", "30m", "1800s"}, false},
		"L-09 another spelling of the reference":        {[]string{"group: karpenter.k8s.aws, kind: EC2NodeClass, ", "apiVersion: karpenter.k8s.aws/v1beta1, "}, false},
		"L-10 another place of expireAfter":             {[]string{"      expireAfter: 48h\n", "", "consolidateAfter: 1m", "consolidateAfter: 1m, expireAfter: 48h"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer(tc.oldnew...).Replace(fullPool)
			if text == fullPool {
				t.Fatal("the case changes nothing")
			}
			if changed := poolHash(t, text) != base; changed != tc.wantChange {
				t.Errorf("hash changed: %v, want %v", changed, tc.wantChange)
			}
		})
	}
}
