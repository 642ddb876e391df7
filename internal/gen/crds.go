package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

type (
	crdObject = apiextensionsv1.CustomResourceDefinition
	schema    = apiextensionsv1.JSONSchemaProps
)

// buildCRDs runs controller-gen over the API types and adds what markers cannot say.
func buildCRDs(ctx context.Context, controllerGen string) ([]*crdObject, error) {
	dir, err := os.MkdirTemp("", "crds")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tool, err := filepath.Abs(controllerGen)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, tool, "crd:crdVersions=v1", "paths=./api/...", "output:crd:dir="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", controllerGen, err, text)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	crds := make([]*crdObject, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		crd := &crdObject{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if err := finish(crd); err != nil {
			return nil, fmt.Errorf("%s: %w", crd.Name, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// finish adds to one CRD what markers cannot say, and its older version.
func finish(crd *crdObject) error {
	crd.Annotations = nil // holds the version of the tool, which would make each update of it a diff
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	switch crd.Spec.Names.Kind {
	case "NodePool":
		edit(root, "spec.template.spec.requirements[].key", restrictAWSKey)
		edit(root, "spec.template.spec.taints[]", restrictTaint)
		edit(root, "spec.template.spec.startupTaints[]", restrictTaint)
		edit(root, "spec.template.metadata.labels", restrictLabels)
		edit(root, "spec.disruption.budgets[].nodes", func(nodes *schema) { nodes.Minimum = new(0.0) }) // text has a pattern
		addVersion(crd, "v1beta1", oldNodePool)
	case "NodeClaim":
		edit(root, "spec.requirements[].key", restrictAWSKey)
		edit(root, "spec.taints[]", restrictTaint)
		edit(root, "spec.startupTaints[]", restrictTaint)
		edit(root, "status.conditions[]", relaxCondition)
		addVersion(crd, "v1beta1", func(*schema) {})
	case "EC2NodeClass":
		edit(root, "spec.blockDeviceMappings[].ebs.volumeSize", limitVolumeSize)
		addVersion(crd, "v1beta1", oldEC2NodeClass)
	case "CapacityBuffer":
		addVersion(crd, "v1alpha1", func(*schema) {})
	case "NodeOverlay":
	default:
		return fmt.Errorf("kind %s is new: say in finish what it needs", crd.Spec.Names.Kind)
	}
	return nil
}

// edit changes the schema at a path such as "spec.taints[].key". A path that does not exist is a
// mistake in this program, which only developers run, and stops it.
func edit(s *schema, path string, change func(*schema)) {
	if path == "" {
		change(s)
		return
	}
	head, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(head, "[]")
	inner, ok := s.Properties[name]
	if !ok {
		panic("no property " + name + " before " + rest)
	}
	if list {
		edit(inner.Items.Schema, rest, change)
	} else {
		edit(&inner, rest, change)
	}
	s.Properties[name] = inner
}

// awsDomainRule refuses the label domain of the AWS provider but for the labels users may set
// (NP-07). The variable stands for the key.
func awsDomainRule(variable string) string {
	allowed := []string{quote(awsv1.LabelNodeClass)}
	for _, label := range awsv1.WellKnownLabels() {
		if strings.HasPrefix(label, awsv1.Group+"/") {
			allowed = append(allowed, quote(label))
		}
	}
	slices.Sort(allowed)
	return fmt.Sprintf("%s in [%s] || !%s.matches('^[^/]*karpenter[.]k8s[.]aws(/|$)')", variable, strings.Join(allowed, ", "), variable)
}

const awsDomainMessage = "label domain karpenter.k8s.aws is reserved; use one of its well-known labels, such as karpenter.k8s.aws/instance-family"

func quote(s string) string { return "'" + s + "'" }

func restrictAWSKey(key *schema) {
	key.XValidations = append(key.XValidations, apiextensionsv1.ValidationRule{Rule: awsDomainRule("self"), Message: awsDomainMessage})
}

func restrictLabels(labels *schema) {
	labels.XValidations = append(labels.XValidations, apiextensionsv1.ValidationRule{
		Rule: "self.all(k, " + awsDomainRule("k") + ")", Message: awsDomainMessage,
	})
	labels.AdditionalProperties.Schema.MaxLength = new(int64(63))
	labels.AdditionalProperties.Schema.Pattern = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
}

const qualifiedName = `([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`

// restrictTaint gives the Kubernetes taint the shapes of API 2.3 (NP-14).
func restrictTaint(taint *schema) {
	edit(taint, "key", func(s *schema) { s.MinLength, s.Pattern = new(int64(1)), "^"+qualifiedName+"$" })
	edit(taint, "value", func(s *schema) { s.Pattern = "^(" + qualifiedName + ")?$" })
	edit(taint, "effect", func(s *schema) {
		s.Enum = rawList("NoSchedule", "PreferNoSchedule", "NoExecute")
	})
}

// relaxCondition lets conditions of older versions pass: no reason, no message, a severity (API 2.5).
func relaxCondition(condition *schema) {
	condition.Required = []string{"lastTransitionTime", "status", "type"}
	edit(condition, "reason", func(s *schema) {
		s.MinLength, s.Pattern = nil, `^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$`
	})
	condition.Properties["severity"] = schema{Type: "string", Description: "Severity was used by v1beta1 and is ignored."}
}

// limitVolumeSize allows the whole ranges EC2 allows and no bare suffix (EC2NodeClass 2).
func limitVolumeSize(size *schema) {
	size.AnyOf, size.XIntOrString, size.Type = nil, false, "string"
	size.Pattern = `^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$`
}

// addVersion serves the schema under an older version too. There is no conversion: the schema is the
// union of both versions, and only defaults and required fields differ (CV-01).
func addVersion(crd *crdObject, name string, change func(*schema)) {
	version := crd.Spec.Versions[0].DeepCopy()
	newest := version.Name
	version.Name, version.Storage, version.Deprecated = name, false, true
	version.DeprecationWarning = new(fmt.Sprintf("%s/%s %s is deprecated; use %s, which `dovetail convert` writes",
		crd.Spec.Group, name, crd.Spec.Names.Kind, newest))
	change(version.Schema.OpenAPIV3Schema)
	crd.Spec.Versions = append(crd.Spec.Versions, *version)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
}

// oldNodePool gives v1beta1 its own defaults (API 11.1).
func oldNodePool(root *schema) {
	edit(root, "spec.disruption", func(s *schema) {
		s.Default = raw(map[string]any{"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"})
	})
	edit(root, "spec.disruption.consolidationPolicy", func(s *schema) { s.Default = raw("WhenUnderutilized") })
	edit(root, "spec.disruption.expireAfter", func(s *schema) { s.Default = raw("720h") })
	edit(root, "spec.disruption.consolidateAfter", func(s *schema) { s.Default = nil })
}

// oldEC2NodeClass gives v1beta1 its own defaults (API 11.3, CV-11). It requires no more than v1 does:
// an object that was applied as v1 must be writable through v1beta1 as well.
func oldEC2NodeClass(root *schema) {
	edit(root, "spec.metadataOptions", func(s *schema) {
		s.Default = raw(map[string]any{
			"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required",
		})
	})
	edit(root, "spec.metadataOptions.httpPutResponseHopLimit", func(s *schema) { s.Default = raw(2) })
}

func raw(value any) *apiextensionsv1.JSON {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only literals of this file come here
	}
	return &apiextensionsv1.JSON{Raw: text}
}

func rawList(values ...string) []apiextensionsv1.JSON {
	list := make([]apiextensionsv1.JSON, 0, len(values))
	for _, v := range values {
		list = append(list, *raw(v))
	}
	return list
}

func crdFileName(crd *crdObject) string {
	return crd.Spec.Group + "_" + crd.Spec.Names.Plural + ".yaml"
}

func encodeCRD(crd *crdObject) ([]byte, error) {
	text, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	delete(tree, "status")
	body, err := yaml.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return append([]byte("# Generated by internal/gen from the types in api/. Do not edit; run: make generate\n---\n"), body...), nil
}
