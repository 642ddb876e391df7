package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

const (
	leaseName     = "karpenter-leader-election"
	metricsPort   = "http-metrics" // name of the port in the pod
	usualPort     = 8080
	tokenValidFor = 600 // seconds; the shortest that there is
	leaseLasts    = 15 * time.Second
)

// wellKnown are the namespaces where a controller usually runs. No others are searched: the pod that holds the Lease is sent
// the token of the user, so that a Lease in a namespace that anybody may write to must not count.
func wellKnown() []string { return []string{"kube-system", "karpenter"} }

// Target is a cluster whose controller is queried.
type Target struct {
	Kube           *rest.Config
	Namespace      string // of the controller; empty: where it usually runs
	ServiceAccount string // NAMESPACE/NAME, whose token is used; empty: the token of the user
}

// Dial finds the leader and connects to it. The error is an UnavailableError unless the context ends.
func Dial(ctx context.Context, t Target) (*Client, error) {
	seen := &tokenRecorder{}
	kube := rest.CopyConfig(t.Kube)
	kube.Wrap(seen.wrap)
	leases, err := coordinationclient.NewForConfig(kube)
	if err != nil {
		return nil, UnavailableError{Who: "the cluster", Why: "cannot be used: " + err.Error(), Fix: "check the kubeconfig"}
	}
	core, err := coreclient.NewForConfig(kube)
	if err != nil {
		return nil, UnavailableError{Who: "the cluster", Why: "cannot be used: " + err.Error(), Fix: "check the kubeconfig"}
	}
	namespace, holder, err := findLeader(ctx, leases, t.Namespace)
	if err != nil {
		return nil, err
	}
	pods, err := findPods(ctx, core, namespace, holder)
	if err != nil {
		return nil, err
	}
	if isKarpenter(&pods[0]) {
		return nil, UnavailableError{Who: whoOf(&pods[0]), Why: "is Karpenter, which does not serve such requests"}
	}
	token, err := tokenOf(ctx, core, t.ServiceAccount, seen)
	if err != nil {
		return nil, err
	}
	var problem error
	for i := range pods {
		c, err := dialPod(ctx, kube, core, &pods[i], token)
		if err == nil && len(pods) > 1 {
			err = c.leads(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return c, ctx.Err()
		}
		if problem == nil {
			problem = err
		}
	}
	return nil, problem
}

// whoOf names a controller for errors.
func whoOf(p *corev1.Pod) string { return "the controller " + p.Namespace + "/" + p.Name }

// dialPod connects to a pod through the API server.
func dialPod(ctx context.Context, kube *rest.Config, core *coreclient.CoreV1Client, pod *corev1.Pod, token string) (*Client, error) {
	who, target := whoOf(pod), core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	f := &forward{kube: kube, url: target, port: portOf(pod)}
	if err := f.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fix := "try kubectl port-forward -n " + pod.Namespace + " pod/" + pod.Name + " 8080, and give --controller-address=http://localhost:8080"
		if apierrors.IsForbidden(err) || strings.Contains(strings.ToLower(err.Error()), "forbidden") {
			fix = "an administrator grants get and create on pods/portforward in namespace " + pod.Namespace
		}
		return nil, UnavailableError{Who: who, Why: "cannot be reached by port-forward: " + err.Error(), Fix: fix}
	}
	transport := &http.Transport{DialContext: f.dial, MaxIdleConnsPerHost: 1}
	return &Client{base: "http://controller", token: token, who: who, http: &http.Client{Transport: transport}, closed: f.close}, nil
}

// leads asks a replica something small. One that does not lead, or does not respond, is closed.
func (c *Client) leads(ctx context.Context) error {
	_, err := c.History(ctx, inspect.HistoryQuery{Limit: 1})
	if _, unavailable := errors.AsType[UnavailableError](err); !unavailable {
		return nil // another problem is said with the response to the question itself
	}
	c.Close()
	return err
}

// Connect returns a Client for a controller at an address. It sends one request to the API server, for the token.
func Connect(ctx context.Context, address string, t Target) (*Client, error) {
	if t.Kube == nil {
		return NewClient(address, "")
	}
	seen := &tokenRecorder{}
	kube := rest.CopyConfig(t.Kube)
	kube.Wrap(seen.wrap)
	core, err := coreclient.NewForConfig(kube)
	if err != nil {
		return nil, err
	}
	if err := core.RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // a token that the API server refuses is refused by the controller too
	}
	token, err := tokenOf(ctx, core, t.ServiceAccount, seen)
	if err != nil {
		return nil, err
	}
	return NewClient(address, token)
}

// findLeader returns what holds the Lease, without the part that is random. Of several Leases the one that was renewed last
// counts.
func findLeader(ctx context.Context, leases coordinationclient.LeasesGetter, namespace string) (found, holder string, err error) {
	searched := wellKnown()
	if namespace != "" {
		searched = []string{namespace}
	}
	var held []*coordinationv1.Lease
	var refused []error
	var forbidden []string
	for _, ns := range searched {
		lease, err := leases.Leases(ns).Get(ctx, leaseName, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, ns)
		case err != nil:
			refused = append(refused, err)
		case lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "":
			held = append(held, lease)
		}
		if len(held) > 0 && time.Since(time.Unix(0, renewed(held[0]))) < leaseLasts {
			break // it is the leader of now
		}
	}
	if len(held) == 0 {
		e := UnavailableError{
			Who: "the controller", Why: fmt.Sprintf("was not found: no replica holds the Lease %s in namespace %s", leaseName, strings.Join(searched, " or ")),
			Fix: "name its namespace with --controller-namespace, or its address with --controller-address",
		}
		switch {
		case len(refused) > 0 && apierrors.IsUnauthorized(refused[0]):
			e.Why, e.Fix = "cannot be found: the API server does not accept the credentials of the kubeconfig", "log in again, and check it with kubectl auth whoami"
		case len(refused) > 0:
			e.Why, e.Fix = "cannot be found: "+refused[0].Error(), "check the connection to the cluster with kubectl cluster-info"
		case len(forbidden) > 0:
			e.Why = fmt.Sprintf("cannot be found: you may not get the Lease %s in namespace %s", leaseName, strings.Join(forbidden, " or "))
			e.Fix = "an administrator grants get on leases in the namespace of the controller"
		}
		return "", "", e
	}
	latest := slices.MaxFunc(held, func(a, b *coordinationv1.Lease) int { return cmp.Compare(renewed(a), renewed(b)) })
	holder, _, _ = strings.Cut(*latest.Spec.HolderIdentity, "_")
	return latest.Namespace, holder, nil
}

// renewed is when a Lease was renewed, as a number that grows with time.
func renewed(l *coordinationv1.Lease) int64 {
	if l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.UnixNano()
}

// mostReplicas is how many pods are asked whether they lead.
const mostReplicas = 3

// findPods returns the pods that may be the holder of a Lease: the one of its name or, if the pod has the network of its host or a
// hostname of its own, those that it may be.
func findPods(ctx context.Context, core coreclient.PodsGetter, namespace, holder string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	pod, err := core.Pods(namespace).Get(ctx, holder, metav1.GetOptions{})
	if err == nil {
		pods = []corev1.Pod{*pod}
	} else if apierrors.IsNotFound(err) {
		pods, err = findPodsOfHost(ctx, core, namespace, holder)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, UnavailableError{Who: "the controller " + namespace + "/" + holder, Why: "cannot be read: " + err.Error(), Fix: "an administrator grants get and list on pods in namespace " + namespace}
	case len(pods) == 0:
		return nil, UnavailableError{
			Who: "the controller", Why: fmt.Sprintf("has no pod: %s holds the Lease %s/%s, and no pod of this name exists", holder, namespace, leaseName),
			Fix: "if it runs outside the cluster, name its address with --controller-address",
		}
	}
	return pods, nil
}

// findPodsOfHost looks among the pods of the chart for one on the Node that holds the Lease, or for all that run: a pod that does
// not lead says so when it is asked.
func findPodsOfHost(ctx context.Context, core coreclient.PodsGetter, namespace, holder string) ([]corev1.Pod, error) {
	list, err := core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name in (karpenter, dovetail)"})
	if err != nil {
		return nil, err
	}
	var candidates []corev1.Pod
	for _, p := range list.Items {
		switch {
		case !hasMetricsPort(&p):
		case p.Spec.HostNetwork && p.Spec.NodeName == holder:
			return []corev1.Pod{p}, nil
		case p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil:
			candidates = append(candidates, p)
		}
	}
	if len(candidates) > mostReplicas {
		return nil, nil
	}
	return candidates, nil
}

// isKarpenter reports whether a pod that holds the Lease is Karpenter: the name of the Lease is the same, the command is not.
func isKarpenter(p *corev1.Pod) bool {
	return !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "controller") || slices.Contains(c.Command, "controller") || strings.Contains(c.Image, "dovetail")
	})
}

func hasMetricsPort(p *corev1.Pod) bool { _, named := namedPort(p); return named }

// portOf is the port that metrics and questions are served on.
func portOf(p *corev1.Pod) int32 {
	port, _ := namedPort(p)
	return port
}

func namedPort(p *corev1.Pod) (port int32, named bool) {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == metricsPort {
				return port.ContainerPort, true
			}
		}
	}
	return usualPort, false
}

// tokenOf returns the token of a service account or, if none is named, the one that the user sends to the API server.
func tokenOf(ctx context.Context, core coreclient.ServiceAccountsGetter, account string, seen *tokenRecorder) (string, error) {
	if account == "" {
		if token := seen.token(); token != "" {
			return token, nil
		}
		return "", UnavailableError{Who: "the controller", Why: "needs a token, and your kubeconfig has none: it identifies you by a certificate", Fix: accountText}
	}
	namespace, name, _ := strings.Cut(account, "/")
	expires := int64(tokenValidFor)
	given, err := core.ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expires}}, metav1.CreateOptions{})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", UnavailableError{Who: "the service account " + account, Why: "gives no token: " + err.Error(), Fix: accountText}
	}
	return given.Status.Token, nil
}

// accountText is how a user without a token gets one.
const accountText = "use a service account that has the permission: kubectl create serviceaccount dovetail-inspect -n kube-system" +
	" && kubectl create clusterrole dovetail-inspect --verb=get --non-resource-url=/debug/decisions" +
	" && kubectl create clusterrolebinding dovetail-inspect --clusterrole=dovetail-inspect --serviceaccount=kube-system:dovetail-inspect" +
	", and add --as-service-account=kube-system/dovetail-inspect"
