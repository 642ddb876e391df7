package reqs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

const zone = corev1.LabelTopologyZone

func TestCompatible(t *testing.T) {
	t.Parallel()
	known := reqs.CoreVocabulary().WellKnownKeys
	set := func(key string, op corev1.NodeSelectorOperator, values ...string) reqs.Set {
		return reqs.Set{key: req(t, op, values...)}
	}
	for name, tc := range map[string]struct {
		pod, node    reqs.Set
		wantExisting string // mismatch when nothing may be undefined; "" is compatible
		wantNew      string // mismatch when well-known keys may be
	}{
		"API-2.2 no requirements fit anywhere":     {pod: nil, node: set(zone, opIn, "a")},
		"API-2.2 overlap on a shared key":          {pod: set("team", opIn, "x", "y"), node: set("team", opIn, "y")},
		"API-2.2 undefined custom key, In":         {pod: set("team", opIn, "x"), wantExisting: "team: want In [x], label not defined", wantNew: "team: want In [x], label not defined"},
		"API-2.2 undefined custom key, Exists":     {pod: set("team", opExists), wantExisting: "team: want Exists, label not defined", wantNew: "team: want Exists, label not defined"},
		"API-2.2 undefined custom key, Gt":         {pod: set("team", opGt, "1"), wantExisting: "team: want >= 2, label not defined", wantNew: "team: want >= 2, label not defined"},
		"API-2.2 undefined key, NotIn":             {pod: set("team", opNotIn, "x")},
		"API-2.2 undefined key, DoesNotExist":      {pod: set("team", opDoesNotExist)},
		"API-2.2 NotIn of nothing needs the label": {pod: set("team", opNotIn), wantExisting: "team: want Exists, label not defined", wantNew: "team: want Exists, label not defined"},
		"API-2.2 undefined well-known key":         {pod: set(zone, opIn, "a"), wantExisting: zone + ": want In [a], label not defined"},
		"API-2.2 disjoint values":                  {pod: set(zone, opIn, "a"), node: set(zone, opIn, "b"), wantExisting: zone + ": want In [a], have In [b]", wantNew: zone + ": want In [a], have In [b]"},
		"API-2.2 both negative need no overlap":    {pod: set("gpu", opNotIn, "t4"), node: set("gpu", opDoesNotExist)},
		"API-2.2 both DoesNotExist":                {pod: set("gpu", opDoesNotExist), node: set("gpu", opDoesNotExist)},
		"API-2.2 Exists against DoesNotExist":      {pod: set("gpu", opExists), node: set("gpu", opDoesNotExist), wantExisting: "gpu: want Exists, have DoesNotExist", wantNew: "gpu: want Exists, have DoesNotExist"},
		"API-2.2 a value against DoesNotExist":     {pod: set("gpu", opDoesNotExist), node: set("gpu", opIn, "t4"), wantExisting: "gpu: want DoesNotExist, have In [t4]", wantNew: "gpu: want DoesNotExist, have In [t4]"},
		"the smallest key is named": {
			pod:          reqs.Set{"a": req(t, opNotIn, "x"), "b": req(t, opIn, "x"), "c": req(t, opIn, "x")},
			wantExisting: "b: want In [x], label not defined", wantNew: "b: want In [x], label not defined",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for want, opts := range map[*string]reqs.Options{&tc.wantExisting: {}, &tc.wantNew: {AllowUndefined: known}} {
				why, ok := reqs.Compatible(tc.pod, tc.node, opts)
				if ok != (*want == "") || !ok && mismatchText(why) != *want {
					t.Errorf("Compatible(undefined allowed: %t) = %q %t, want %q", opts.AllowUndefined != nil, mismatchText(why), ok, *want)
				}
			}
		})
	}
}

// mismatchText renders a mismatch: "zone: want In [a], have In [b]".
func mismatchText(m reqs.Mismatch) string {
	have := "have " + m.Have.String()
	if m.Undefined {
		have = "label not defined"
	}
	return m.Key + ": want " + m.Want.String() + ", " + have
}

func TestConflict(t *testing.T) {
	t.Parallel()
	a, b := reqs.Set{zone: req(t, opIn, "a")}, reqs.Set{zone: req(t, opIn, "b")}
	for name, tc := range map[string]struct {
		a, b    reqs.Set
		wantKey string
	}{
		"disjoint zones conflict":             {a: a, b: b, wantKey: zone},
		"absent key is unconstrained":         {a: a},
		"both satisfied by absence":           {a: reqs.Set{"k": {}}, b: reqs.Set{"k": req(t, opNotIn, "x")}},
		"of several conflicts, the first key": {a: a.Intersect(reqs.Set{"k": {}}), b: b.Intersect(reqs.Set{"k": req(t, opIn, "x")}), wantKey: "k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if key, found := tc.a.Conflict(tc.b); key != tc.wantKey || found != (key != "") {
				t.Errorf("Conflict() = %q %t, want %q", key, found, tc.wantKey)
			}
		})
	}
}

func TestSetIsUsableWhenNil(t *testing.T) {
	t.Parallel()
	var s reqs.Set
	if s.Clone() == nil || s.String() != "" || !s.Allows("k", "v") || len(s.Intersect(nil)) != 0 {
		t.Errorf("the nil Set is not the empty one")
	}
	if !s.Add("k", req(t, opIn, "a")) || s.Add("k", req(t, opIn, "b")) || s.String() != "k DoesNotExist" {
		t.Errorf("Add on the nil Set gave %q", s)
	}
}

// aws is what a provider adds to the core vocabulary.
func aws() reqs.Vocabulary {
	return reqs.Vocabulary{
		WellKnownKeys:     map[string]bool{"karpenter.k8s.aws/instance-cpu": true},
		RestrictedDomains: []string{"karpenter.k8s.aws"},
		Aliases:           map[string]string{"topology.ebs.csi.aws.com/zone": zone},
		Rewrites:          map[string]map[string]string{zone: {"use1-az1": "us-east-1a"}},
		ClosedValues:      map[string][]string{"karpenter.k8s.aws/instance-tenancy": {"dedicated", "default"}},
	}
}

func TestVocabulary(t *testing.T) {
	t.Parallel()
	v := reqs.CoreVocabulary().With(aws())
	for key, want := range map[string]struct {
		canonical         string
		known, restricted bool
	}{
		"failure-domain.beta.kubernetes.io/zone":   {canonical: zone, known: true},                               // API-6.4
		"failure-domain.beta.kubernetes.io/region": {canonical: "topology.kubernetes.io/region", known: true},    // API-6.4
		"beta.kubernetes.io/arch":                  {canonical: "kubernetes.io/arch", known: true},               // API-6.4
		"beta.kubernetes.io/os":                    {canonical: "kubernetes.io/os", known: true},                 // API-6.4
		"beta.kubernetes.io/instance-type":         {canonical: "node.kubernetes.io/instance-type", known: true}, // API-6.4
		"topology.ebs.csi.aws.com/zone":            {canonical: zone, known: true},                               // API-6.4, AWS
		"karpenter.sh/provisioner-name":            {canonical: "karpenter.sh/nodepool", known: true},            // L-14
		"karpenter.sh/nodepool":                    {known: true},                                                // API-6.1
		"karpenter.sh/capacity-type":               {known: true},                                                // API-6.1
		"node.kubernetes.io/windows-build":         {known: true},                                                // API-6.1
		"karpenter.k8s.aws/instance-cpu":           {known: true},                                                // API-6.2
		"karpenter.sh/initialized":                 {restricted: true},                                           // API-6.3
		"compute.karpenter.sh/x":                   {restricted: true},                                           // API-6.3 sub-domain
		"karpenter.k8s.aws/instance-pods":          {restricted: true},                                           // API-6.2, removed upstream
		"karpenter.k8s.aws/ec2nodeclass":           {restricted: true},                                           // API-6.2
		"kubernetes.io/hostname":                   {restricted: true},                                           // API-6.3
		"my-karpenter.sh/x":                        {},                                                           // API-6.3: not a sub-domain
		"karpenter.sh":                             {},                                                           // a name without a domain
		"node.kubernetes.io/custom":                {},                                                           // API-6.3: allowed in v1
		"team":                                     {},
	} {
		if want.canonical == "" {
			want.canonical = key
		}
		if got := v.Canonical(key); got != want.canonical {
			t.Errorf("Canonical(%s) = %s, want %s", key, got, want.canonical)
		}
		if v.WellKnown(key) != want.known || v.Restricted(key) != want.restricted {
			t.Errorf("%s: well-known %t restricted %t, want %t %t", key, v.WellKnown(key), v.Restricted(key), want.known, want.restricted)
		}
	}
	if reqs.CoreVocabulary().WellKnown("karpenter.k8s.aws/instance-cpu") || !(reqs.Vocabulary{}).With(aws()).WellKnown("karpenter.k8s.aws/instance-cpu") {
		t.Error("With changed its receiver, or lost a word")
	}
	if got := v.Value("topology.ebs.csi.aws.com/zone", "use1-az1"); got != "us-east-1a" {
		t.Errorf("Value() through an alias = %q", got)
	}
	twice := v.With(reqs.Vocabulary{Rewrites: map[string]map[string]string{zone: {"use1-az2": "us-east-1b"}}})
	if twice.Value(zone, "use1-az1") != "us-east-1a" || twice.Value(zone, "use1-az2") != "us-east-1b" || v.Value(zone, "use1-az2") != "use1-az2" {
		t.Error("rewrites of one key were not merged, or leaked into the receiver")
	}
	if diff := cmp.Diff([]string{"on-demand", "reserved", "spot"}, twice.ClosedValues["karpenter.sh/capacity-type"]); diff != "" {
		t.Errorf("closed values (-want +got):\n%s", diff)
	}
}

func TestFromLabels(t *testing.T) {
	t.Parallel()
	got := reqs.FromLabels(map[string]string{
		zone:                            "us-east-1b",
		"topology.ebs.csi.aws.com/zone": "use1-az1", // stale: the canonical label wins
		"beta.kubernetes.io/arch":       "arm64",
		"karpenter.sh/nodepool":         "new",
		"karpenter.sh/provisioner-name": "old",
		"team":                          "",
	}, reqs.CoreVocabulary().With(aws()))
	want := "karpenter.sh/nodepool In [new]; kubernetes.io/arch In [arm64]; team In []; topology.kubernetes.io/zone In [us-east-1b]"
	if got.String() != want {
		t.Errorf("FromLabels() = %s\nwant           %s", got, want)
	}
}

func TestFromSelector(t *testing.T) {
	t.Parallel()
	v := reqs.CoreVocabulary().With(aws())
	got, faults := reqs.FromSelector(map[string]string{"topology.ebs.csi.aws.com/zone": "use1-az1", zone: "us-east-1a"}, v)
	if got.String() != zone+" In [us-east-1a]" || len(faults) > 0 {
		t.Errorf("alias and canonical agree: got %v, %v", got, faults)
	}
	_, faults = reqs.FromSelector(map[string]string{"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "windows"}, v)
	if len(faults) != 1 || faults[0].Kind != reqs.Contradiction {
		t.Errorf("alias and canonical contradict: got faults %v", faults)
	}
}

func TestFromNodeSelectorTerm(t *testing.T) {
	t.Parallel()
	type expr = corev1.NodeSelectorRequirement
	for name, tc := range map[string]struct {
		exprs      []expr
		fields     []expr
		want       string
		wantFaults []string
	}{
		"SC-12 expressions are ANDed, aliases rewritten": {
			exprs: []expr{{Key: zone, Operator: opIn, Values: []string{"a", "b"}}, {Key: "failure-domain.beta.kubernetes.io/zone", Operator: opNotIn, Values: []string{"b"}}},
			want:  zone + " In [a]",
		},
		"L-14 provisioner name selects the pool": {
			exprs: []expr{{Key: "karpenter.sh/provisioner-name", Operator: opIn, Values: []string{"default"}}},
			want:  "karpenter.sh/nodepool In [default]",
		},
		"Kubernetes allows negative numbers": {
			exprs: []expr{{Key: "a", Operator: opGt, Values: []string{"-5"}}, {Key: "b", Operator: opLt, Values: []string{"-5"}}, {Key: "c", Operator: opIn, Values: []string{"-5"}}},
			want:  "a >= 0; b <= -1; c In [-5]",
		},
		"I15 self-contradiction is reported once": {
			exprs: []expr{{Key: "k", Operator: opIn, Values: []string{"a"}}, {Key: "k", Operator: opIn, Values: []string{"b"}}, {Key: "k", Operator: opIn, Values: []string{"c"}}},
			want:  "k DoesNotExist", wantFaults: []string{"k: In [b] together with In [a] allows no value; change or remove one of the entries for this label"},
		},
		"FEAT-12 Gt of the largest int can never hold": {
			exprs: []expr{{Key: "k", Operator: opGt, Values: []string{maxInt}}},
			want:  "k DoesNotExist", wantFaults: []string{"k: Gt [9223372036854775807] allows no value; change or remove one of the entries for this label"},
		},
		"DoesNotExist with NotIn is no contradiction": {
			exprs: []expr{{Key: "k", Operator: opDoesNotExist}, {Key: "k", Operator: opNotIn, Values: []string{"a"}}},
			want:  "k DoesNotExist",
		},
		"faults name index, key and fix; the rest is read": {
			exprs: []expr{{Key: "k", Operator: opIn}, {Key: "team", Operator: opExists}},
			want:  "team Exists", wantFaults: []string{"k: operator In has no values; give it at least one value, or use Exists to allow any"},
		},
		"SC-3.4c matchFields": {
			fields: []expr{{Key: "metadata.name", Operator: opIn, Values: []string{"n"}}},
			want:   "", wantFaults: []string{"metadata.name: matchFields is not supported; select nodes by label in matchExpressions"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, faults := reqs.FromNodeSelectorTerm(corev1.NodeSelectorTerm{MatchExpressions: tc.exprs, MatchFields: tc.fields}, reqs.CoreVocabulary())
			if got.String() != tc.want {
				t.Errorf("set = %q, want %q", got, tc.want)
			}
			var texts []string
			for _, f := range faults {
				texts = append(texts, f.Error())
			}
			if diff := cmp.Diff(tc.wantFaults, texts); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
