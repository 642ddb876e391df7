package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tfModule    = "../../terraform/modules/karpenter"
	tfFullStack = "../../terraform/examples/full-stack"
)

func blocksOf(t *testing.T, dir, name string) map[string]map[string]string {
	t.Helper()
	blocks, err := readHCL(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]string{}
	for _, b := range blocks {
		found[b.name] = b.arguments
	}
	return found
}

// Names, types and defaults of the inputs are what configurations out there rely on.
func TestS_153_InputsOfTheTerraformModule(t *testing.T) {
	t.Parallel()
	const required = ""
	inputs := blocksOf(t, tfModule, "variables.tf")
	for name, want := range map[string][2]string{
		"eks_cluster_name":     {"string", required},
		"eks_cluster_endpoint": {"string", required},
		"aws_region":           {"string", required},
		"environment":          {"string", `"dev"`},
		"namespace":            {"string", `"karpenter"`},
		"service_account_name": {"string", `"karpenter"`},
		"helm_chart_version":   {"string", `"` + chartVersion(t) + `"`},
		"resource_tag":         {"map(string)", "{}"},
		// Beyond those of the seed.
		"enable_spot_termination":           {"bool", "true"},
		"auth_mode":                         {"string", `"pod-identity"`},
		"oidc_provider_arn":                 {"string", "null"},
		"queue_name":                        {"string", "null"},
		"queue_kms_master_key_id":           {"string", "null"},
		"node_iam_role_additional_policies": {"map(string)", "{}"},
		"create_instance_profile":           {"bool", "true"},
		"create_access_entry":               {"bool", "true"},
		"create_spot_service_linked_role":   {"bool", "true"},
		"rule_name_prefix":                  {"string", `"Karpenter"`},
		"replicas":                          {"number", "2"},
		"helm_values":                       {"list(string)", "[]"},
	} {
		if got := [2]string{inputs[name]["type"], inputs[name]["default"]}; got != want {
			t.Errorf("%s: type and default are %q, want %q", name, got, want)
		}
	}
	for name, arguments := range inputs {
		if _, found := arguments["default"]; !found && !slices.Contains([]string{"eks_cluster_name", "eks_cluster_endpoint", "aws_region"}, name) {
			t.Errorf("%s is required; configurations that exist do not set it", name)
		}
	}
}

// chartVersion is the version of the charts of this repository.
func chartVersion(t *testing.T) string {
	t.Helper()
	versions := map[string]bool{}
	for _, chart := range []string{"karpenter", "karpenter-crd"} {
		text, err := os.ReadFile(filepath.Join("../../charts", chart, "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		versions[regexp.MustCompile(`(?m)^version: (\S+)$`).FindStringSubmatch(string(text))[1]] = true
	}
	if len(versions) != 1 {
		t.Fatalf("the charts have different versions: %v", versions)
	}
	return slices.Collect(maps.Keys(versions))[0]
}

// What readers copy names the version of the charts that it was written for.
func TestVersionsInTerraformExamples(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?m)^\s*(?:helm_chart_version|version)\s+= "([0-9][^"]*)"$`)
	for _, file := range []string{"../../docs/how-to/install-terraform.md", "../../terraform/examples/complete/main.tf"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(string(text), -1)
		if len(all) == 0 {
			t.Errorf("%s names no version", file)
		}
		for _, m := range all {
			if want := chartVersion(t); m[1] != want {
				t.Errorf("%s: %s, want %s", file, m[0], want)
			}
		}
	}
}

func TestS_154_OutputsOfTheTerraformModule(t *testing.T) {
	t.Parallel()
	outputs := blocksOf(t, tfModule, "outputs.tf")
	for name := range strings.FieldsSeq("iam_role_arn node_iam_role_arn node_iam_role_name instance_profile_name queue_name queue_url queue_arn event_rules node_access_entry_arn") {
		if outputs[name] == nil {
			t.Errorf("no output %s", name)
		}
	}
}

func TestS_148_FilesOfTheTerraformModule(t *testing.T) {
	t.Parallel()
	for file, resource := range map[string]string{
		"karpenter-namespace.tf":       `resource "kubectl_manifest" "namespace"`,
		"karpenter-controller.tf":      `resource "aws_eks_pod_identity_association" "controller"`,
		"karpenter-helm.tf":            `resource "helm_release" "controller"`,
		"karpenter-nodepool.tf":        `kind       = "EC2NodeClass"`,
		"karpenter_infra_node_pool.tf": `metadata   = { name = "infra" }`,
		"karpenter_app_node_pool.tf":   `metadata   = { name = "app" }`,
		"spot-rol-karpenter.tf":        `resource "aws_iam_service_linked_role" "spot"`,
	} {
		if text, err := os.ReadFile(filepath.Join(tfModule, file)); err != nil || !strings.Contains(string(text), resource) {
			t.Errorf("%s does not have %s: %v", file, resource, err)
		}
	}
}

// The inputs and outputs of the set-up with a cluster of its own.
func TestS_161_S_164_InterfaceOfTheFullStack(t *testing.T) {
	t.Parallel()
	inputs, outputs := blocksOf(t, tfFullStack, "variables.tf"), blocksOf(t, tfFullStack, "outputs.tf")
	for rule, names := range map[string]string{
		"S-161": "addon_cni_version addon_coredns_version addon_kubeproxy_version cluster_name k8s_version",
		"S-163": "map_accounts map_roles map_users node_groups service_account subnet_ids tags",
		"S-162": "karpenter_provider",
	} {
		for name := range strings.FieldsSeq(names) {
			if inputs[name] == nil {
				t.Errorf("%s: no input %s", rule, name)
			}
		}
	}
	for name, arguments := range inputs {
		if _, found := arguments["default"]; found == (name == "k8s_version") {
			t.Errorf("S-161: %s: only k8s_version is required", name)
		}
	}
	if got := inputs["cluster_name"]["default"]; got != `"backend"` {
		t.Errorf("S-161: cluster_name is %s by default", got)
	}
	for input, attributes := range map[string]string{
		"karpenter_provider": "provider_name capacity_type instance_family instance_sizes availability_zones cpu_limit memory_limit ttl_scaling_empty ttl_nodes",
		"node_groups":        "name labels instance_types capacity_type max_unavailable_percentage desired_capacity max_capacity min_capacity",
		"service_account":    "name namespace",
	} {
		for attribute := range strings.FieldsSeq(attributes) {
			if !regexp.MustCompile(`\b` + attribute + ` =`).MatchString(inputs[input]["type"]) {
				t.Errorf("%s has no attribute %s: %s", input, attribute, inputs[input]["type"])
			}
		}
	}
	for _, name := range []string{"endpoint", "kubeconfig-certificate-authority-data", "oidc_cluster_url"} {
		if outputs[name] == nil {
			t.Errorf("S-164: no output %s", name)
		}
	}
	if want := blocksOf(t, tfModule, "variables.tf")["karpenter_provider"]["type"]; inputs["karpenter_provider"]["type"] != want {
		t.Errorf("S-162: karpenter_provider of the example is not that of the module: %s", inputs["karpenter_provider"]["type"])
	}
}

// What is there by default is the bootstrap group of the requirement.
func TestS_120_S_159_BootstrapNodeGroup(t *testing.T) {
	t.Parallel()
	got := blocksOf(t, tfFullStack, "variables.tf")["node_groups"]["default"]
	for _, want := range []string{
		`instance_types = ["t4g.medium"]`, `capacity_type = "ON_DEMAND"`, "min_capacity = 2", "desired_capacity = 2", "max_capacity = 3",
		`taints = [{ key = "CriticalAddonsOnly", value = "true", effect = "NO_SCHEDULE" }]`,
	} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("the default group does not have %s: %s", want, got)
		}
	}
}

// Versions of providers and of Terraform are at least some version, so that users can upgrade them without us.
func TestS_146_S_160_VersionsHaveAFloorAndNoCeiling(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("../../terraform/*/*/versions.tf")
	if err != nil || len(found) != 4 {
		t.Fatalf("%q: %v", found, err)
	}
	constraint := regexp.MustCompile(`(?m)^\s*(?:required_)?version\s*= "([^"]*)"$`)
	floor := regexp.MustCompile(`^>= [0-9]+(\.[0-9]+)+$`)
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := constraint.FindAllStringSubmatch(string(text), -1)
		if len(all) < 4 || strings.Count(string(text), "source  =") != len(all)-1 {
			t.Errorf("%s: %d constraints", file, len(all))
		}
		for _, m := range all {
			if !floor.MatchString(m[1]) {
				t.Errorf("%s: %q is not a floor", file, m[1])
			}
		}
	}
}

func TestReadHCL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "variables.tf")
	text := `variable "many" {
  description = "Lines."
  type = list(object({
    name = string
    size = optional(number, 1)
  }))
  default = []

  validation {
    condition     = true
    error_message = "No."
  }
}

output "one" {
  description = "A line."
  value       = 1
}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readHCL(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []hclBlock{
		{"variable", "many", map[string]string{"description": `"Lines."`, "type": "list(object({ name = string, size = optional(number, 1) }))", "default": "[]"}},
		{"output", "one", map[string]string{"description": `"A line."`, "value": "1"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hclBlock{})); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte("variable \"x\" {\n  type        = string\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readHCL(path); err == nil {
		t.Error("a variable without description is accepted")
	}
}
