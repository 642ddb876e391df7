package world

import (
	"context"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/sandbox/containers"
)

// ReaderAccount is the service account that may query the controller, as NAMESPACE/NAME.
const ReaderAccount = metav1.NamespaceSystem + "/" + readerName

const (
	readerName = "dovetail-inspect"
	// readerSeconds is how long its token is valid: longer than anybody looks at a demo.
	readerSeconds = 8 * 60 * 60
)

// Reader is a service account that may query the controller, and do nothing else.
type Reader struct {
	Token      string
	Kubeconfig string // file that names the token
}

// GrantReader makes the account, as docs/how-to/ask-the-controller.md has users do.
func (w *World) GrantReader(ctx context.Context) (Reader, error) {
	rbac := func(kind string, more map[string]any) *unstructured.Unstructured {
		more["apiVersion"], more["kind"], more["metadata"] = "rbac.authorization.k8s.io/v1", kind, map[string]any{"name": readerName}
		return &unstructured.Unstructured{Object: more}
	}
	for _, o := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": readerName, "namespace": metav1.NamespaceSystem}}},
		rbac("ClusterRole", map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}, "nonResourceURLs": []any{journal.Path}}}}),
		rbac("ClusterRoleBinding", map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": readerName},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": readerName, "namespace": metav1.NamespaceSystem}},
		}),
	} {
		if _, err := w.Kube.Apply(ctx, o); err != nil {
			return Reader{}, err
		}
	}
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return Reader{}, err
	}
	given, err := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, readerName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(readerSeconds))},
	}, metav1.CreateOptions{})
	if err != nil {
		return Reader{}, err
	}
	base := filepath.Join(w.dir, readerName)
	r := Reader{Token: given.Status.Token, Kubeconfig: base + ".kubeconfig"}
	if err := os.WriteFile(base+".token", []byte(r.Token), 0o600); err != nil {
		return Reader{}, err
	}
	return r, containers.WriteKubeconfig(r.Kubeconfig, w.ControlPlane.Config.Host, w.ControlPlane.Config.CAData, base+".token")
}
