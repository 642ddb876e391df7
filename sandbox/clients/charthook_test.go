package clients

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const uninstallJob = "Job/karpenter-uninstall"

// LC-63, S-133: before helm uninstall a Job cleans up, as the controller: its account, image, settings and place.
func TestLC_63_ChartCleansUpBeforeItGoes(t *testing.T) {
	t.Parallel()
	r := render(t, "--set", "controller.env[0].name=EXTRA,controller.env[0].value=1,dnsPolicy=Default")
	job, deployment := objectAs[batchv1.Job](t, r, uninstallJob), r.controllerDeployment(t)
	if hook := job.Annotations["helm.sh/hook"]; hook != "pre-delete" {
		t.Errorf("hook %q", hook)
	}
	pod, controller := job.Spec.Template.Spec, deployment.Spec.Template.Spec
	if diff := gocmp.Diff([]string{"uninstall", "--nodes=Keep", "--timeout=240s"}, pod.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if *job.Spec.ActiveDeadlineSeconds >= 300 {
		t.Errorf("it may take %d s, and helm waits for 300", *job.Spec.ActiveDeadlineSeconds)
	}
	for what, pair := range map[string][2]any{
		"environment":      {controller.Containers[0].Env, pod.Containers[0].Env},
		"image":            {controller.Containers[0].Image, pod.Containers[0].Image},
		"security context": {controller.Containers[0].SecurityContext, pod.Containers[0].SecurityContext},
		"account":          {controller.ServiceAccountName, pod.ServiceAccountName},
		"tolerations":      {controller.Tolerations, pod.Tolerations},
		"nodes":            {controller.Affinity.NodeAffinity, pod.Affinity.NodeAffinity},
		"DNS":              {controller.DNSPolicy, pod.DNSPolicy},
	} {
		if diff := gocmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-controller +job):\n%s", what, diff)
		}
	}
	if labels := job.Spec.Template.Labels; labels["app.kubernetes.io/name"] == deployment.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Errorf("the Service would take it for a controller: %v", labels)
	}
}

// LC-63: NodePools are not deleted unless that is requested, and the right to is there only while it happens.
func TestLC_63_ChartValuesOfTheUninstallation(t *testing.T) {
	t.Parallel()
	if r := render(t, "--set", "uninstall.enabled=false"); r[uninstallJob] != nil {
		t.Error("there is a Job although it is turned off")
	}
	for nodes, want := range map[string][]string{"Keep": nil, "Release": nil, "Delete": {"cluster karpenter.sh nodepools: delete"}} {
		r := render(t, "--set", "uninstall.nodes="+nodes+",uninstall.timeoutSeconds=900")
		if args := objectAs[batchv1.Job](t, r, uninstallJob).Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"uninstall", "--nodes=" + nodes, "--timeout=900s"}) {
			t.Errorf("arguments %q", args)
		}
		var got []string
		if u := r["ClusterRole/karpenter-uninstall"]; u != nil {
			role := objectAs[rbacv1.ClusterRole](t, r, "ClusterRole/karpenter-uninstall")
			got = rightsOf("cluster", role.Rules)
			if !strings.Contains(role.Annotations["helm.sh/hook-delete-policy"], "hook-failed") || role.Annotations["helm.sh/hook"] != "pre-delete" {
				t.Errorf("the right outlives the Job: %v", role.Annotations)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("rights of %s (-want +got):\n%s", nodes, diff)
		}
	}
	for set, want := range map[string]string{
		"uninstall.nodes=delete":          `uninstall.nodes is "delete"; give Keep, Delete or Release`,
		"uninstall.enabled=never":         `uninstall.enabled is "never"; give true or false`,
		"uninstall.timeoutSeconds=5m":     `uninstall.timeoutSeconds is "5m"; give a whole number of seconds`,
		"uninstall.timeoutSeconds=-1":     `uninstall.timeoutSeconds is "-1"; give a whole number of seconds`,
		"uninstall=off":                   "at '/uninstall': got string, want null or object",
		"uninstall.nodes=Keep,replicas=x": `replicas is "x"`,
	} {
		if _, stderr, err := runHelm(t, "template", "karpenter", theChart, "--set", "settings.clusterName=x", "--set", set); err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: error %v, want %q in\n%s", set, err, want, stderr)
		}
	}
}
