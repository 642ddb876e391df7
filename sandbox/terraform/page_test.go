package terraform

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/arch/pages"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What the page about Terraform has readers type works, from init to destroy. terraform is OpenTofu here.
func TestPage(t *testing.T) {
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("no aws in PATH, which the page uses; Debian's package awscli has one")
	}
	clone, before := t.TempDir(), accountContents(t)
	if err := os.CopyFS(filepath.Join(clone, "terraform"), os.DirFS(setting.sources)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = root{dir: filepath.Join(clone, "terraform", "examples", "basic"), vars: clusterVars()}.tofuCommand(context.Background(), "destroy", "-auto-approve", "-input=false").Run()
		}
		runShell(t, "kubectl delete crd -l app.kubernetes.io/managed-by=Helm --timeout=60s")
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euxo pipefail\nterraform() { \"$TOFU\" \"$@\"; }\n"+pageBlocks(t, "docs/how-to/install-terraform.md"))
	cmd.Dir, cmd.Stdin = clone, strings.NewReader("yes\n") // to the question whether to destroy
	cmd.Env = append(slices.Clone(setting.env), "KUBECONFIG="+setting.world.ControlPlane.Kubeconfig, "TOFU="+setting.tofu,
		"CLUSTER_NAME="+world.Cluster, "AWS_DEFAULT_REGION="+world.Region, "TF_VAR_helm_repository="+setting.charts)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"iam_role_arn = ", "nodepool.karpenter.sh/app ", "KarpenterSpotInterruption-" + world.Cluster, "Destroy complete!"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	sameAccount(t, before)
	cleanCluster(t)
}

// pageBlocks are the blocks of a page that name TestPage as the test that runs them, one after the other.
func pageBlocks(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(setting.sources), filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, b := range pages.Blocks(page, string(text)) {
		if dir, test, elsewhere := b.Test(); elsewhere && dir == "sandbox/terraform" && test == "TestPage" {
			blocks = append(blocks, b.Text)
		}
	}
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of %s name this test, want those that apply, look and destroy", len(blocks), page)
	}
	return strings.Join(blocks, "\n")
}
