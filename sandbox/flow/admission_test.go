package flow_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// FM A14: a policy of the cluster denies claims of one pool. The pod gets a node of the next pool, and the
// denied claims are not tried in a tight loop.
func TestFM_A14_ClaimsAreDenied(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.applyAdmissionPolicy(&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}, `
spec:
  matchConstraints: {resourceRules: [{apiGroups: [karpenter.sh], apiVersions: ["*"], operations: [CREATE], resources: [nodeclaims]}]}
  validations:
  - expression: "!has(object.metadata.labels) || object.metadata.labels[?'karpenter.sh/nodepool'].orValue('') != '`+f.name+`-first'"
    message: no nodes of this pool today`, `{validationActions: [Deny]}`)
	var tries atomic.Int64
	f.Cleanup(f.world.Proxy.Watch(func(r apiproxy.Request) {
		if r.Verb == "create" && r.Resource == "nodeclaims" && r.Status >= http.StatusBadRequest && strings.Contains(string(r.Body), f.name+"-first") {
			tries.Add(1)
		}
	}))
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	f.pool("-first", label, func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(90)) })
	f.pool("-next", label)
	f.deploy("inflate", 1, withNodeSelector("flow", f.name))
	f.waitUntil(soon, "a claim was denied", func() (bool, string) { return tries.Load() > 0, "" })
	f.waitForRunningPods("inflate", 1)
	if n := len(f.claims(f.name + "-next")); n != 1 {
		t.Errorf("%d claims of the next pool", n)
	}
	if n := tries.Load(); n > 20 {
		t.Errorf("%d claims were tried and denied", n)
	}
}

// FM A13, G8: a policy of the cluster changes claims as they are made, so that the pods they are for do not
// fit any more. They are counted for their pods all the same: no claim follows another without end.
func TestFM_A13_ClaimsAreChangedOnTheWay(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.applyAdmissionPolicy(&admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingAdmissionPolicyBinding{}, `
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [karpenter.sh], apiVersions: ["*"], operations: [CREATE], resources: [nodeclaims]}]}
  matchConditions:
  - name: ours
    expression: "has(object.metadata.labels) && object.metadata.labels[?'karpenter.sh/nodepool'].orValue('') == '`+f.name+`'"
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: "[JSONPatch{op: 'add', path: '/metadata/labels/changed', value: 'yes'}, JSONPatch{op: 'add', path: '/spec/taints', value: [{'key': 'example.com/changed', 'effect': 'NoSchedule'}]}]"`, `{}`)
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("was changed", func(c *karpv1.NodeClaim) bool { return c.Labels["changed"] == "yes" && len(c.Spec.Taints) == 1 })
	f.checkStays(30*time.Second, "one claim", func() (bool, string) {
		list := f.claims()
		return len(list) == 1 && list[0].UID == claim.UID, sayConditions(list)
	})
}

// applyAdmissionPolicy puts a policy in force, with what binds it, until the test ends.
func (f *flow) applyAdmissionPolicy(policy, binding client.Object, spec, binds string) {
	f.Helper()
	f.decode(spec, policy)
	f.decode(fmt.Sprintf(`{metadata: {name: %s}, spec: {policyName: %s}}`, f.name, f.name), binding)
	if b, ok := binding.(*admissionv1.ValidatingAdmissionPolicyBinding); ok {
		f.decode(binds, &b.Spec)
		b.Spec.PolicyName = f.name
	}
	policy.SetName(f.name)
	for _, obj := range []client.Object{policy, binding} {
		f.create(obj)
		f.Cleanup(func() { f.remove(obj) })
	}
	f.inForce(policy)
}

// inForce waits until the API server applies a policy: it says no to, or changes, a claim that is only tried.
func (f *flow) inForce(policy client.Object) {
	f.Helper()
	f.waitUntil(soon, "the policy is in force", func() (bool, string) {
		for _, pool := range []string{f.name, f.name + "-first"} {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Labels: map[string]string{karpv1.LabelNodePool: pool}}}
			f.decode(`{requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: none}}`, &claim.Spec)
			if err := f.kube.Create(f.Context(), claim, client.DryRunAll); err != nil && strings.Contains(err.Error(), "of this pool today") || claim.Labels["changed"] != "" {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%T changes nothing yet", policy)
	})
}
