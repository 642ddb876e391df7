package terraform

import (
	"path/filepath"
	"strings"
	"testing"
)

// What the module and the example with a cluster make of their inputs, with providers that only pretend. The runs are in the
// folders tests.
func TestPlanned(t *testing.T) {
	terraform := copyTerraform(t)
	for folder, rules := range map[string]map[string]string{
		"modules/karpenter": {
			"S-149 pod identity, spot termination, permissions of nodes":  "custom_s157",
			"S-150 service account, cluster, endpoint and queue for Helm": "helm_values_s156",
			"S-151 the class":                                    "node_class_s151",
			"S-155 what is made":                                 "defaults_s155",
			"S-156 values of the chart":                          "helm_values_s156",
			"S-157 namespace, version, account, tags":            "custom_s157",
			"S-158 the switch for the queue":                     "without_spot_termination_s158",
			"S-162 NodePools from karpenter_provider":            "karpenter_provider_s162",
			"S-036 ten seconds after the role for spot was made": "spot_role_is_missing",
			"S-139 a role for spot that exists":                  "spot_role_exists",
			"S-128 names of the roles":                           "defaults_s155",
			"S-130 policies of the nodes":                        "defaults_s155",
			"S-131 access entry":                                 "defaults_s155",
			"IRSA":                                               "irsa",
			"refused values":                                     "first_values",
		},
		"examples/full-stack": {
			"S-159 the bootstrap node group":                 "bootstrap_node_group_s159",
			"S-163 subnets, groups and add-ons of one's own": "named_subnets_and_groups_s163",
			"S-164 outputs": "outputs_s164",
			"S-165 cluster, add-ons, roles, launch template, tags": "made_by_default_s165",
			"S-166 ports":                         "ports_s166",
			"S-167 other charts":                  "neighbours_s167",
			"S-168 service accounts and aws-auth": "outputs_s164",
			"S-169 data: identity, token, documents, AMI release, user data": "made_by_default_s165",
		},
	} {
		t.Run(folder, func(t *testing.T) {
			r := root{dir: filepath.Join(terraform, filepath.FromSlash(folder))}
			r.runTofu(t, 0, "init", "-input=false")
			out := r.runTofu(t, 0, "test")
			for rule, run := range rules {
				if !strings.Contains(out, `run "`+run+`"... pass`) {
					t.Errorf("%s: the run %s did not pass:\n%s", rule, run, out)
				}
			}
		})
	}
}

// A value that cannot be used is refused by the plan, in a sentence that names it and says what to write.
func TestBadInputIsNamedWithTheFix(t *testing.T) {
	bad := map[string]struct {
		value string
		says  []string
	}{
		"eks_cluster_name":                  {"my cluster", []string{`"my cluster"`, "use 1 to 100 letters, digits, hyphens and underscores", "aws eks list-clusters"}},
		"eks_cluster_endpoint":              {"example.com", []string{`"example.com"`, "use the attribute endpoint of aws_eks_cluster"}},
		"aws_region":                        {"us-west-2a", []string{`"us-west-2a"`, "write it as in us-west-2, without the letter of a zone"}},
		"environment":                       {"<dev>", []string{`"<dev>"`, "cannot be the value of a tag"}},
		"namespace":                         {"Karpenter", []string{`"Karpenter"`, "such as karpenter or kube-system"}},
		"service_account_name":              {"node_autoscaler", []string{`"node_autoscaler"`, "use lower-case letters"}},
		"helm_chart_version":                {"v0.1.0", []string{`"v0.1.0"`, "without a leading v"}},
		"resource_tag":                      {`{"karpenter.sh/nodepool"="x"}`, []string{"so leave them out: karpenter.sh/nodepool"}},
		"auth_mode":                         {"IRSA", []string{`"IRSA"`, `use "pod-identity" or "irsa"`}},
		"oidc_provider_arn":                 {"https://oidc", []string{`"https://oidc"`, "aws iam list-open-id-connect-providers"}},
		"queue_name":                        {"a.fifo", []string{`"a.fifo"`, "a FIFO queue does not work"}},
		"node_iam_role_additional_policies": {`{agent="Agent"}`, []string{`agent = "Agent"`, "as in arn:aws:iam::aws:policy/"}},
		"rule_name_prefix":                  {"My rules", []string{`"My rules"`, "use 1 to 20 letters"}},
		"replicas":                          {"0", []string{"The value of replicas, 0,", "at least 1"}},
		"helm_values":                       {`["- a"]`, []string{"Document 1 of helm_values", "yamlencode("}},
		"helm_repository":                   {"", []string{"The value of helm_repository is empty", "give an oci:// or https:// repository"}},
		"ami_alias":                         {"al2023", []string{`"al2023"`, "al2023@latest"}},
		"karpenter_provider":                {`[{provider_name="a",capacity_type=["SPOT"]}]`, []string{`use spot, on-demand or reserved: "SPOT"`}},
	}
	vars := map[string]string{}
	for name, b := range bad {
		vars[name] = b.value
	}
	r := root{dir: filepath.Join(copyTerraform(t), "modules", "karpenter"), vars: vars}
	r.runTofu(t, 0, "init", "-input=false")
	said := strings.Join(strings.Fields(r.runTofu(t, 1, "plan", "-input=false")), " ") // lines are broken anywhere
	for name, b := range bad {
		for _, want := range b.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the plan does not say %q", name, want)
			}
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
