package uninstall_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/uninstall"
)

// kind is that of the classes here.
func kind() driver.Class {
	return driver.Class{
		GroupVersionKind: awsv1.GroupVersion().WithKind(awsv1.Kind), Finalizer: awsv1.FinalizerTermination, Makes: "instance profiles",
		New: func() client.Object { return &awsv1.EC2NodeClass{} }, NewList: func() client.ObjectList { return &awsv1.EC2NodeClassList{} },
	}
}

func nodeClass(name string) awsv1.EC2NodeClass {
	return awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{awsv1.FinalizerTermination}}}
}

func nodeClaim(name, class string) karpv1.NodeClaim {
	c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{karpv1.FinalizerTermination}, Labels: map[string]string{karpv1.LabelNodePool: "pool"}}}
	c.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: class}
	c.Status.ProviderID = "aws:///a/i-" + name
	return c
}

func node(name, claim string, labels map[string]string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{karpv1.FinalizerTermination}, Labels: labels}}
	n.Spec.ProviderID = "aws:///a/i-" + claim
	return n
}

// LC-63, S-133: what is done before an uninstallation, by what users want of the nodes that are left.
func TestLC_63_Decide(t *testing.T) {
	t.Parallel()
	stripped := nodeClass("stripped")
	stripped.Finalizers = nil
	other := nodeClaim("other", "unused") // of another cloud, with a class of the same name
	other.Spec.NodeClassRef.Group = "karpenter.azure.com"
	old := nodeClaim("old", "old") // written by v1beta1
	old.Spec.NodeClassRef = karpv1.NodeClassReference{DeprecatedAPIVersion: "karpenter.k8s.aws/v1beta1", Kind: awsv1.Kind, Name: "old"}
	facts := uninstall.Facts{
		Kind: kind(), Classes: []client.Object{new(nodeClass("used")), new(nodeClass("unused")), new(nodeClass("old")), &stripped},
		Claims:  []karpv1.NodeClaim{nodeClaim("b", "used"), nodeClaim("a", "used"), other, old},
		Objects: []corev1.Node{node("node-a", "a", nil), node("node-x", "x", map[string]string{awsv1.LabelNodeClass: "used"}), node("node-y", "y", nil)},
	}
	for name, tc := range map[string]struct {
		nodes   uninstall.Nodes
		want    uninstall.Plan
		remains []string
	}{
		"nodes are kept": {
			nodes: uninstall.Keep, want: uninstall.Plan{Clean: []string{"unused"}},
			remains: []string{"EC2NodeClass old keeps its finalizer: it is used by NodeClaims old;", "EC2NodeClass used keeps its finalizer: it is used by NodeClaims a, b;"},
		},
		"nodes are released": {
			nodes: uninstall.Release,
			want:  uninstall.Plan{Clean: []string{"unused"}, Strip: []string{"old", "used"}, Claims: []string{"a", "b", "old"}, Nodes: []string{"node-a", "node-x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := facts
			facts.Nodes = tc.nodes
			got := uninstall.Decide(facts)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(uninstall.Plan{}, "Remains"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if len(got.Remains) != len(tc.remains) {
				t.Fatalf("remains %q, want %q", got.Remains, tc.remains)
			}
			for i, text := range tc.remains {
				if !strings.HasPrefix(got.Remains[i], text) {
					t.Errorf("remains %q, want %q", got.Remains[i], text)
				}
			}
		})
	}
}
