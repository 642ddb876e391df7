package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// freshCluster gives a test a cluster as bare does, with CRDs that are not Helm's.
func freshCluster(t *testing.T) *karpenter {
	t.Helper()
	k := bareCluster(t)
	if _, err := sandbox.Kube.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

// bareCluster gives a test a cluster without CRDs, release and nodes that were launched, and an account in which nothing was made for
// one. What the test leaves is reported if it fails, and removed by the next one.
func bareCluster(t *testing.T) *karpenter {
	t.Helper()
	ctx := t.Context()
	t.Cleanup(func() {
		if t.Failed() {
			describe(t)
		}
	})
	runLine(t, `kubectl delete deployment --all -n default --timeout=240s
for ns in kube-system karpenter; do for name in karpenter karpenter-crd second; do helm uninstall $name -n $ns --no-hooks --wait --ignore-not-found; done; done
for ns in kube-system karpenter; do kubectl delete lease karpenter-leader-election -n $ns --ignore-not-found; kubectl delete jobs --all -n $ns; done
for ns in kube-system karpenter; do kubectl wait --for=delete pods -l app.kubernetes.io/name=karpenter -n $ns --timeout=240s; done`)
	k := newKarpenter(t)
	k.emptyAccount()
	// Until nothing is left: one that was terminating may have put its finalizer back.
	waitUntil(t, "no object of a controller", func() (bool, string) {
		left := 0
		for _, all := range []client.ObjectList{&karpv1.NodeClaimList{}, &corev1.NodeList{}, &awsv1.EC2NodeClassList{}, &karpv1.NodePoolList{}} {
			if err := kube.List(ctx, all); meta.IsNoMatchError(err) || err != nil && strings.Contains(err.Error(), "could not find the requested resource") {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if err := meta.EachListItem(all, deleteObject(t, &left)); err != nil {
				t.Fatal(err)
			}
		}
		return left == 0, fmt.Sprint(left, " objects")
	})
	// The API server retries what fails here after twice as long each time.
	runLine(t, "kubectl delete crd nodepools.karpenter.sh nodeclaims.karpenter.sh nodeoverlays.karpenter.sh ec2nodeclasses.karpenter.k8s.aws capacitybuffers.autoscaling.x-k8s.io --ignore-not-found --timeout=540s")
	return k
}

// emptyAccount removes what was made in the account.
func (k *karpenter) emptyAccount() {
	k.Helper()
	ctx := context.WithoutCancel(k.Context())
	for _, i := range sandbox.AWS.Instances() {
		if i.State != "terminated" {
			_, err := k.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{i.ID}})
			k.failOn(err)
		}
	}
	for _, name := range k.templateNames() {
		_, err := k.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
		k.failOn(err)
	}
	for _, name := range k.controllerProfiles() {
		found, err := k.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		k.failOn(err)
		for _, role := range found.InstanceProfile.Roles {
			_, err := k.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: role.RoleName})
			k.failOn(err)
		}
		_, err = k.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
		k.failOn(err)
	}
}

// controllerProfiles are the instance profiles that a controller made.
func (k *karpenter) controllerProfiles() []string {
	k.Helper()
	return slices.DeleteFunc(k.profileNames(), func(name string) bool { return !strings.HasPrefix(name, "sandbox_") })
}

// deleteObject deletes an object whatever holds it, and counts it.
func deleteObject(t *testing.T, found *int) func(obj runtime.Object) error {
	t.Helper()
	return func(obj runtime.Object) error {
		o, is := obj.(client.Object)
		if n, node := o.(*corev1.Node); !is || node && n.Labels[karpv1.LabelNodePool] == "" {
			return nil
		}
		*found++
		if err := kube.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("%s: %w", o.GetName(), err)
		}
		return client.IgnoreNotFound(kube.Delete(t.Context(), o))
	}
}
