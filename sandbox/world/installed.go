package world

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/internal/rights"
	"github.com/dovetail-sh/dovetail/sandbox/containers"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// Image is the repository of the image that the chart installs. Pods of it run as processes.
const Image = "ghcr.io/dovetail-sh/dovetail"

// release is the name of the release in installed.yaml, and so that of what it has.
const release = "karpenter"

// installed is what the chart makes: helm template karpenter charts/karpenter -n kube-system. A test beside the real helm
// keeps it so.
//
//go:embed installed.yaml
var installed []byte

// Installation says how the chart was installed. The zero value is as users do it first.
type Installation struct {
	Namespace      string // empty means kube-system
	ServiceAccount string // empty means karpenter
	// Rules are appended to the rights, as the value additionalClusterRoleRules of the chart does; see Granted.
	Rules []rbacv1.PolicyRule
	// Console has the controller serve its web page.
	Console bool
	// Without takes a right away, for tests of what is reported then.
	Without func(rbacv1.PolicyRule) []rbacv1.PolicyRule
}

// Granted are the rules that the chart adds to its own if values are set, such as optionalRights.limitRanges=true.
func Granted(values ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, value := range values {
		found := false
		for _, r := range rights.All() {
			if r.Value == value {
				rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: r.Verbs}
				if r.Name != "" {
					rule.ResourceNames = strings.Split(r.Name, ", ")
				}
				rules = append(rules, rule)
				found = true
			}
		}
		if !found {
			panic("no value of the chart grants anything as " + value) // a typo in a test
		}
	}
	return rules
}

// grantsNomination is what the chart sets NOMINATE_PODS to: it comes with the right.
func (i Installation) grantsNomination() bool {
	return slices.ContainsFunc(i.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/status") })
}

// Stored are the rules with which the chart has the ledger kept (settings.ledger=true).
func Stored() []rbacv1.PolicyRule { return Granted("settings.ledger=true") }

// storesLedger is what the chart sets LEDGER to: it comes with the rights.
func (i Installation) storesLedger() bool {
	return slices.ContainsFunc(i.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "configmaps") })
}

func (i Installation) withDefaults() Installation {
	if i.Namespace == "" {
		i.Namespace = metav1.NamespaceSystem
	}
	if i.ServiceAccount == "" {
		i.ServiceAccount = release
	}
	return i
}

// name is that of roles and bindings. Two installations in one cluster have two of each.
func (i Installation) name(original string) string {
	if i.Namespace == metav1.NamespaceSystem && i.ServiceAccount == release {
		return original
	}
	return i.ServiceAccount + "-" + i.Namespace + strings.TrimPrefix(original, release)
}

// renderObjects are what the chart makes of this installation: all, or of the kinds that are requested.
func (i Installation) renderObjects(kinds ...string) ([]*unstructured.Unstructured, error) {
	list, err := kubectl.Read("installed.yaml", installed)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, m := range list {
		if len(kinds) > 0 && !slices.Contains(kinds, m.Object.GetKind()) {
			continue
		}
		if err := i.adaptObject(m.Object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
		}
		out = append(out, m.Object)
	}
	return out, nil
}

// adaptObject changes an object as the chart would render it for this installation.
func (i Installation) adaptObject(o *unstructured.Unstructured) error {
	name, kind := o.GetName(), o.GetKind()
	if o.GetNamespace() != "" && !strings.HasSuffix(name, "-dns") { // the Service of the DNS is where it is
		o.SetNamespace(i.Namespace)
	}
	switch kind {
	case "ServiceAccount":
		o.SetName(i.ServiceAccount)
	case "Deployment":
		for name, set := range map[string]bool{"LEDGER": i.storesLedger(), "SERVE_CONSOLE": i.Console} {
			if !set {
				continue
			}
			if err := setEnvironment(o, name, "true"); err != nil {
				return err
			}
		}
		return unstructured.SetNestedField(o.Object, i.ServiceAccount, "spec", "template", "spec", "serviceAccountName")
	case "ClusterRole", "Role":
		o.SetName(i.name(name))
		return i.adaptRules(o, strings.HasSuffix(name, "-core"))
	case "ClusterRoleBinding", "RoleBinding":
		o.SetName(i.name(name))
		role, _, err := unstructured.NestedString(o.Object, "roleRef", "name")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, i.name(role), "roleRef", "name"); err != nil {
			return err
		}
		return unstructured.SetNestedSlice(o.Object, []any{
			map[string]any{"kind": "ServiceAccount", "name": i.ServiceAccount, "namespace": i.Namespace},
		}, "subjects")
	}
	return nil
}

// setEnvironment gives a variable of the first container of a Deployment a value, as values of the chart do.
func setEnvironment(o *unstructured.Unstructured, name, value string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil || len(containers) == 0 {
		return fmt.Errorf("%s has no containers: %w", o.GetName(), err)
	}
	container, _ := containers[0].(map[string]any)
	variables, _ := container["env"].([]any)
	for _, v := range variables {
		if entry, ok := v.(map[string]any); ok && entry["name"] == name {
			entry["value"] = value
			return unstructured.SetNestedSlice(o.Object, containers, path...)
		}
	}
	container["env"] = append(variables, map[string]any{"name": name, "value": value})
	return unstructured.SetNestedSlice(o.Object, containers, path...)
}

func (i Installation) adaptRules(o *unstructured.Unstructured, core bool) error {
	if strings.HasSuffix(o.GetName(), "-admin") {
		return nil // of people, not of the controller
	}
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		return err
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		if i.Without == nil {
			rules = append(rules, rule)
			continue
		}
		rules = append(rules, i.Without(rule)...)
	}
	if core {
		rules = append(rules, i.Rules...)
	}
	list := []any{}
	for n := range rules {
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rules[n])
		if err != nil {
			return err
		}
		list = append(list, rule)
	}
	return unstructured.SetNestedSlice(o.Object, list, "rules")
}

// rightsKinds are the kinds of a service account and of what it may do.
func rightsKinds() []string {
	return []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
}

// Grant makes the service account of an installation, with the rights of the chart. Called again, it changes them.
func (w *World) Grant(ctx context.Context, i Installation) error {
	return w.installObjects(ctx, i.withDefaults(), rightsKinds()...)
}

// Install does what helm install does with the chart: pods of the controller run, as processes, if the world has a Program.
// Its service account is associated with the role of the controller, as the installation guide says.
func (w *World) Install(ctx context.Context, i Installation) error {
	i = i.withDefaults()
	w.AWS.Associate(i.Namespace, i.ServiceAccount, ControllerRole)
	return w.installObjects(ctx, i)
}

// Uninstall removes what Install made, but for the namespace.
func (w *World) Uninstall(ctx context.Context, i Installation) error {
	list, err := i.withDefaults().renderObjects()
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := w.Kube.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (w *World) installObjects(ctx context.Context, i Installation, kinds ...string) error {
	list, err := i.renderObjects(kinds...)
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": i.Namespace}}}
	for _, o := range append([]*unstructured.Unstructured{namespace}, list...) {
		if _, err := w.Kube.Apply(ctx, o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// tokenSeconds is longer than any process of the sandbox lives.
const tokenSeconds = 7 * 24 * 60 * 60

// kubeconfig writes a file for a process that acts as the service account of an installation, directly or through the
// proxy, and returns its name.
func (w *World) kubeconfig(ctx context.Context, i Installation, proxied bool) (string, error) {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return "", err
	}
	given, err := client.CoreV1().ServiceAccounts(i.Namespace).CreateToken(ctx, i.ServiceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	base := filepath.Join(w.dir, i.Namespace+"-"+i.ServiceAccount)
	host, authority := w.ControlPlane.Config.Host, w.ControlPlane.Config.CAData
	if proxied {
		authority, base = nil, base+"-proxied"
		if host, err = w.serveAs(ctx, given.Status.Token); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(base+".token", []byte(given.Status.Token), 0o600); err != nil {
		return "", err
	}
	return base + ".kubeconfig", containers.WriteKubeconfig(base+".kubeconfig", host, authority, base+".token")
}

// serveAs serves the proxy to the owner of a token, and returns the address. The proxy speaks plain HTTP, over which clients
// send no token: a client without one would be an administrator.
func (w *World) serveAs(ctx context.Context, token string) (string, error) {
	return w.serve(ctx, 0, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w.Proxy.ServeHTTP(rw, r)
	}))
}
