package rights

import (
	"slices"
	"strings"
	"testing"
)

// What the API server says, in JSON and in protobuf, and what admission says with the same code.
func TestRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want Denial
		is   bool
	}{
		"cluster-wide": {`pods is forbidden: User "system:serviceaccount:kube-system:karpenter" cannot list resource "pods" in API group "" at the cluster scope`, Denial{Verb: "list", Resource: "pods"}, true},
		"JSON": {
			`{"kind":"Status","message":"nodeclaims.karpenter.sh \"a\" is forbidden: User \"x:y\" cannot patch resource \"nodeclaims/status\" in API group \"karpenter.sh\" at the cluster scope","code":403}`,
			Denial{Verb: "patch", Resource: "nodeclaims/status", Group: "karpenter.sh"},
			true,
		},
		"in a namespace, with the reason of the authorizer": {
			`leases.coordination.k8s.io "karpenter-leader-election" is forbidden: User "u" cannot update resource "leases" in API group "coordination.k8s.io" in the namespace "kube-system": RBAC: role "x" not found`,
			Denial{Verb: "update", Resource: "leases", Group: "coordination.k8s.io", Namespace: "kube-system"},
			true,
		},
		"a quota":   {`pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`, Denial{}, false},
		"a webhook": {`admission webhook "w" denied the request: no`, Denial{}, false},
		"nothing":   {"", Denial{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, is := Read(tc.text); got != tc.want || is != tc.is {
				t.Errorf("Read() = %+v, %v, want %+v, %v", got, is, tc.want, tc.is)
			}
		})
	}
}

// S-116: a warning names verb, resource and group, says what does not work, and which rule to add where.
func TestS_116_WarningNamesTheRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		denial Denial
		want   []string
	}{
		"a right of the chart": {Denial{Verb: "delete", Resource: "nodeclaims", Group: "karpenter.sh"}, []string{
			"the service account may not delete nodeclaims.karpenter.sh: no node is removed by the controller", "add the rule {apiGroups: [karpenter.sh], resources: [nodeclaims], verbs: [delete]} to ClusterRole karpenter-core, or install the chart again",
		}},
		"a right in the namespace": {Denial{Verb: "update", Resource: "leases", Group: "coordination.k8s.io", Namespace: "karpenter"}, []string{
			"may not update leases.coordination.k8s.io in namespace karpenter: no replica leads", "resourceNames: [karpenter-leader-election], verbs: [update]} to Role karpenter in the namespace of the release",
		}},
		"one that a value grants": {Denial{Verb: "watch", Resource: "limitranges"}, []string{`{apiGroups: [""], resources: [limitranges], verbs: [list, watch]}`, "which the value optionalRights.limitRanges=true of the chart does"}},
		"one without a rule":      {Denial{Verb: "get", Resource: "secrets"}, []string{`may not get secrets; add the rule {apiGroups: [""], resources: [secrets], verbs: [get]} to ClusterRole karpenter-core`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.denial.Warning()
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}

func TestEveryRightIsExplainedOnce(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, r := range All() {
		if r.For == "" || r.Without == "" || len(r.Verbs) == 0 {
			t.Errorf("%s is not explained", r.Rule())
		}
		for _, verb := range r.Verbs {
			key := r.Group + " " + r.Resource + " " + verb
			if slices.Contains(seen, key) && r.Name == "" && r.Value == "" {
				t.Errorf("%s twice", key)
			}
			seen = append(seen, key)
		}
	}
}
