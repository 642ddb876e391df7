package cluster_test

import "testing"

func TestRequirements(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec          string
		wantRequired  []string
		wantPreferred []string
		wantInvalid   []string
		wantRefuses   bool
	}{
		"SC-12 a pod without requirements has one empty alternative": {
			wantRequired: []string{""},
		},
		"SC-12 nodeSelector entries are In, aliases rewritten": {
			spec:         `{nodeSelector: {beta.kubernetes.io/arch: arm64, team: a}}`,
			wantRequired: []string{"kubernetes.io/arch In [arm64]; team In [a]"},
		},
		"SC-12 each alternative contains the nodeSelector": {
			spec: `
nodeSelector: {team: a}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: In, values: [ssd]}]},
  {matchExpressions: [{key: disk, operator: Exists}, {key: cpus, operator: Gt, values: ["3"]}]}]}}}`,
			wantRequired: []string{"disk In [ssd]; team In [a]", "cpus >= 4; disk Exists; team In [a]"},
		},
		"SC-14 an alternative that contradicts itself is left out, the others stay": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: In, values: [ssd]}, {key: disk, operator: In, values: [hdd]}]},
  {matchExpressions: [{key: disk, operator: In, values: [tape]}]}]}}}`,
			wantRequired: []string{"disk In [tape]"},
		},
		"an alternative that contradicts the nodeSelector never reads as a label that must be absent": {
			spec: `
nodeSelector: {disk: ssd}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: In, values: [hdd]}]}]}}}`,
			wantRequired: []string{"disk In [ssd]"},
			wantInvalid:  []string{"RequirementsContradict spec.affinity.nodeAffinity.required[0]"},
		},
		"a nodeSelector that contradicts itself through an alias": {
			spec:         `{nodeSelector: {beta.kubernetes.io/arch: arm64, kubernetes.io/arch: amd64}}`,
			wantRequired: []string{"kubernetes.io/arch DoesNotExist"},
			wantInvalid:  []string{"RequirementsContradict spec.nodeSelector"},
		},
		"3.4 a: a pool requested under two names is a contradiction, not a refusal of managed nodes": {
			spec:         `{nodeSelector: {karpenter.sh/provisioner-name: a, karpenter.sh/nodepool: b}}`,
			wantRequired: []string{"karpenter.sh/nodepool DoesNotExist"},
			wantInvalid:  []string{"RequirementsContradict spec.nodeSelector"},
		},
		"an empty required term matches no node, as in kube-scheduler": {
			spec:         `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}}`,
			wantRequired: []string{""},
			wantInvalid:  []string{"RequirementsContradict spec.affinity.nodeAffinity.required[0]"},
		},
		"SC-12 preferences, heaviest first; empty, weightless and impossible ones mean nothing": {
			spec: `
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
  {weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}},
  {weight: 9, preference: {matchExpressions: [{key: b, operator: Exists}]}},
  {weight: 9, preference: {matchExpressions: [{key: c, operator: Exists}]}},
  {weight: 50, preference: {}},
  {weight: 0, preference: {matchExpressions: [{key: d, operator: Exists}]}},
  {weight: 60, preference: {matchFields: [{key: metadata.name, operator: In, values: [n]}]}},
  {weight: 70, preference: {matchExpressions: [{key: e, operator: In, values: [x]}, {key: e, operator: In, values: [y]}]}}]}}`,
			wantRequired:  []string{""},
			wantPreferred: []string{"b Exists", "c Exists", "a Exists"},
		},
		"3.4 a: a pod that wants no managed node is left alone silently": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}`,
			wantRequired: []string{"karpenter.sh/nodepool DoesNotExist"},
			wantRefuses:  true,
		},
		"3.4 a: a pod with another way out is planned for": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]},
  {matchExpressions: [{key: team, operator: Exists}]}]}}}`,
			wantRequired: []string{"karpenter.sh/nodepool DoesNotExist", "team Exists"},
		},
		"3.4 b: hostname, restricted domains, malformed keys and values, unknown capacity types": {
			spec: `
nodeSelector: {kubernetes.io/hostname: node-1, karpenter.sh/initialized: "true", "a b": c, ok: "-", karpenter.sh/capacity-type: cheap}`,
			wantRequired: []string{`a b In [c]; karpenter.sh/capacity-type In [cheap]; karpenter.sh/initialized In [true]; kubernetes.io/hostname In [node-1]; ok In [-]`},
			wantInvalid: []string{
				"LabelMalformed spec.nodeSelector", "ValueUnknown spec.nodeSelector", "LabelRestricted spec.nodeSelector",
				"LabelRestricted spec.nodeSelector", "LabelMalformed spec.nodeSelector",
			},
		},
		"3.4 b: one bad term refuses the pod even if another is good": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: a, operator: Near, values: [x]}]},
  {matchExpressions: [{key: b, operator: Exists}]}]}}}`,
			wantRequired: []string{"", "b Exists"},
			wantInvalid:  []string{"OperatorUnknown spec.affinity.nodeAffinity.required[0]"},
		},
		"3.4 c: matchFields": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}`,
			wantRequired: []string{""},
			wantInvalid:  []string{"FieldUnsupported spec.affinity.nodeAffinity.required[0]"},
		},
		"17: devices by resource claim, in the pod or in a container": {
			spec:         `{containers: [{name: a, resources: {claims: [{name: gpu}]}}]}`,
			wantRequired: []string{""},
			wantInvalid:  []string{"DevicesUnsupported spec.resourceClaims"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shapeOf(t, tc.spec)
			var preferred []string
			for _, p := range s.Preferred {
				preferred = append(preferred, p.Needs.String())
			}
			diff(t, "Required", sets(s.Required), tc.wantRequired)
			diff(t, "Preferred", preferred, tc.wantPreferred)
			diff(t, "Invalid", codes(s), tc.wantInvalid)
			diff(t, "Refuses", s.Refuses, tc.wantRefuses)
		})
	}
}
