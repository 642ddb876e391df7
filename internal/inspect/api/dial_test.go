package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

const userToken = "token-of-the-user"

// cluster is an API server as far as Dial needs one: Leases, pods, tokens and port-forwards, which it connects to the
// metrics port of a controller.
type cluster struct {
	*httptest.Server

	metrics net.Listener // nil: pods refuse connections
	standby net.Listener // of pods whose name begins with standby
	objects map[string]any
	denied  map[string]bool // paths that are forbidden

	mu       sync.Mutex
	requests []string
}

func newCluster(t *testing.T, metrics http.Handler) *cluster {
	t.Helper()
	c := &cluster{objects: map[string]any{}, denied: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Server.Close)
	if metrics != nil {
		served := httptest.NewServer(metrics)
		t.Cleanup(served.Close)
		c.metrics = served.Listener
	}
	return c
}

func (c *cluster) kube() *rest.Config { return &rest.Config{Host: c.URL, BearerToken: userToken} }

func (c *cluster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	c.requests = append(c.requests, req.Method+" "+req.URL.Path)
	c.mu.Unlock()
	object, found := c.objects[req.URL.Path]
	switch {
	case c.denied[req.URL.Path]:
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, "forbidden: you may not")
	case strings.HasSuffix(req.URL.Path, "/portforward"):
		c.forward(w, req)
	case found:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	default:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	}
}

func status(w http.ResponseWriter, code int32, reason metav1.StatusReason, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text})
}

// forward connects streams to the metrics port, as an API server does that knows SPDY but not WebSocket.
func (c *cluster) forward(w http.ResponseWriter, req *http.Request) {
	if strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "upgrade is not supported")
		return
	}
	if _, err := httpstream.Handshake(req, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 10)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	failures := map[string]httpstream.Stream{}
	for {
		select {
		case <-conn.CloseChan():
			return
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				failures[id] = s
				continue
			}
			go c.connect(s, failures[id], c.listenerOf(req.URL.Path))
		}
	}
}

// listenerOf is the metrics port of the pod that a path names.
func (c *cluster) listenerOf(path string) net.Listener {
	if strings.Contains(path, "/pods/standby") {
		return c.standby
	}
	return c.metrics
}

func (c *cluster) connect(data, failures httpstream.Stream, metrics net.Listener) {
	defer func() { _, _ = failures.Close(), data.Close() }()
	if metrics == nil {
		_, _ = io.WriteString(failures, "port "+data.Headers().Get(corev1.PortHeader)+": connection refused")
		return
	}
	pod, err := net.Dial("tcp", metrics.Addr().String())
	if err != nil {
		return
	}
	defer func() { _ = pod.Close() }()
	go func() { _, _ = io.Copy(pod, data) }()
	_, _ = io.Copy(data, pod)
}

func (c *cluster) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.requests...)
}

// leader gives the cluster a Lease and the pod that holds it.
func (c *cluster) leader(namespace, name string, renewed time.Time) {
	holder, at := name+"_5f7c", metav1.NewMicroTime(renewed)
	c.objects["/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/karpenter-leader-election"] = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter-leader-election"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
	}
	c.objects["/api/v1/namespaces/"+namespace+"/pods/"+name] = controllerPod(namespace, name)
}

func controllerPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Args: []string{"controller"}, Ports: []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: 8000}}}}},
	}
}

// onlyUser lets requests through that carry the token of the user.
type onlyUser struct{ token string }

func (o onlyUser) Review(_ context.Context, token, _ string) (journal.Verdict, error) {
	if token == o.token {
		return journal.Allowed, nil
	}
	return journal.Forbidden, nil
}

// The leader is found and asked with the token that the user has for the API server, in a few requests.
func TestEX_35_DialConnectsToTheLeader(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 3, Pending: 1})
	c := newCluster(t, journal.NewGuard(source.server(t), onlyUser{userToken}, time.Now))
	c.leader("kube-system", "dovetail-1", time.Now())
	client, err := api.Dial(t.Context(), api.Target{Kube: c.kube()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fleet, err := client.Fleet(t.Context())
	if err != nil || fleet.Totals.Nodes != 3 || fleet.Source != "leader kube-system/dovetail-1" {
		t.Errorf("got %d nodes of %q, %v; want 3 of the leader", fleet.Totals.Nodes, fleet.Source, err)
	}
	if _, err := client.History(t.Context(), inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "x"}, Since: time.Now(), Kinds: []string{"command", "plan"}, Limit: 5}); err != nil {
		t.Errorf("history: %v", err)
	}
	if _, err := client.Plan(t.Context(), inspect.WhatIf{}); err != nil {
		t.Errorf("plan: %v", err)
	}
	if file, err := client.Snapshot(t.Context()); err != nil || len(file.Objects.Nodes) != 3 {
		t.Errorf("snapshot: %v", err)
	}
	_, err = client.Explain(t.Context(), inspect.Subject{Kind: inspect.KindNode, Name: "absent"})
	if missing, is := errors.AsType[inspect.NotFoundError](err); !is || missing.Subject.Name != "absent" {
		t.Errorf("an object that is absent: %v, want a NotFoundError", err)
	}
	if sent := c.sent(); len(sent) > 6 {
		t.Errorf("%d requests to the API server, want at most 6: %q", len(sent), sent)
	}
}

// What is in the way is said with the next step.
func TestEX_35_DialSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	const lease, pod = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election", "/api/v1/namespaces/kube-system/pods/dovetail-1"
	for name, tc := range map[string]struct {
		change func(c *cluster, target *api.Target)
		says   []string
	}{
		"no lease": {func(c *cluster, _ *api.Target) { delete(c.objects, lease) }, []string{"kube-system or karpenter", "--controller-namespace"}},
		"no lease in the namespace that is named": {func(_ *cluster, target *api.Target) { target.Namespace = "other" }, []string{"in namespace other", "--controller-namespace"}},
		"leases are forbidden":                    {func(c *cluster, _ *api.Target) { c.denied[lease] = true }, []string{"you may not get the Lease karpenter-leader-election in namespace kube-system;", "grants get on leases"}},
		"a lease that nobody holds": {func(c *cluster, _ *api.Target) {
			c.objects[lease].(*coordinationv1.Lease).Spec.HolderIdentity = new("")
		}, []string{"no replica holds the Lease"}},
		"no pod": {func(c *cluster, _ *api.Target) {
			delete(c.objects, pod)
			c.objects["/api/v1/namespaces/kube-system/pods"] = &corev1.PodList{}
		}, []string{"no pod of this name", "--controller-address"}},
		"pods are forbidden":               {func(c *cluster, _ *api.Target) { c.denied[pod] = true }, []string{"you may not", "on pods in namespace kube-system"}},
		"port-forwards are forbidden":      {func(c *cluster, _ *api.Target) { c.denied[pod+"/portforward"] = true }, []string{"pods/portforward in namespace kube-system"}},
		"it is Karpenter":                  {func(c *cluster, _ *api.Target) { c.objects[pod].(*corev1.Pod).Spec.Containers[0].Args = nil }, []string{"is Karpenter"}},
		"a kubeconfig without a token":     {func(_ *cluster, target *api.Target) { target.Kube.BearerToken = "" }, []string{"your kubeconfig has none", "kubectl create serviceaccount", "--as-service-account=kube-system/dovetail-inspect"}},
		"a service account that is absent": {func(_ *cluster, target *api.Target) { target.ServiceAccount = "default/absent" }, []string{"default/absent", "kubectl create serviceaccount"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, http.NotFoundHandler())
			c.leader("kube-system", "dovetail-1", time.Now())
			target := api.Target{Kube: c.kube()}
			tc.change(c, &target)
			_, err := api.Dial(t.Context(), target)
			if _, unavailable := errors.AsType[api.UnavailableError](err); !unavailable {
				t.Fatalf("got %v, want an UnavailableError", err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
		})
	}
}

// The Lease that was renewed last counts, and Leases of other namespaces than the usual ones are ignored: a user who may
// write one there would be sent tokens.
func TestEX_35_DialTrustsUsualNamespacesOnly(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 1})
	c := newCluster(t, source.server(t))
	c.leader("kube-system", "left-behind", time.Now().Add(-time.Hour))
	c.leader("karpenter", "current", time.Now())
	c.leader("tenant", "trap", time.Now().Add(time.Hour))
	client, err := api.Dial(t.Context(), api.Target{Kube: c.kube()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if f, err := client.Fleet(t.Context()); err != nil || f.Source != "leader karpenter/current" {
		t.Errorf("asked %q, %v", f.Source, err)
	}
	for _, request := range c.sent() {
		if strings.Contains(request, "tenant") {
			t.Errorf("looked into another namespace: %s", request)
		}
	}
}

// A service account can ask in place of a user without a token.
func TestEX_35_DialWithServiceAccount(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 1})
	c := newCluster(t, journal.NewGuard(source.server(t), onlyUser{"token-of-the-account"}, time.Now))
	c.leader("kube-system", "dovetail-1", time.Now())
	c.objects["/api/v1/namespaces/ops/serviceaccounts/viewer/token"] = &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "token-of-the-account"}}
	kube := c.kube()
	kube.BearerToken = ""
	client, err := api.Dial(t.Context(), api.Target{Kube: kube, ServiceAccount: "ops/viewer"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Fleet(t.Context()); err != nil {
		t.Error(err)
	}
}

// A pod whose name is not that of the holder is found by its Node, or by asking those that it may be.
func TestEX_35_DialFindsPodsByTheirHost(t *testing.T) {
	t.Parallel()
	const holder = "ip-10-0-0-1.ec2.internal"
	onHost := func(name, node string) corev1.Pod {
		p := controllerPod("kube-system", name)
		p.Spec.HostNetwork, p.Spec.NodeName, p.Status.Phase = true, node, corev1.PodRunning
		return *p
	}
	running := func(name string) corev1.Pod {
		p := controllerPod("kube-system", name)
		p.Status.Phase = corev1.PodRunning
		return *p
	}
	ended := running("dovetail-0")
	ended.Status.Phase = corev1.PodSucceeded
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want string
		says string // otherwise
	}{
		"on the network of the host":    {[]corev1.Pod{{}, onHost("dovetail-1", "other"), onHost("dovetail-2", holder)}, "kube-system/dovetail-2", ""},
		"the only one":                  {[]corev1.Pod{{}, ended, running("dovetail-3")}, "kube-system/dovetail-3", ""},
		"the one of several that leads": {[]corev1.Pod{running("standby-1"), running("dovetail-3")}, "kube-system/dovetail-3", ""},
		"several, none of which leads":  {[]corev1.Pod{running("standby-1"), running("standby-2")}, "", "kube-system/standby-1 cannot respond now: this replica does not lead"},
		"too many to ask each":          {[]corev1.Pod{running("a"), running("b"), running("c"), running("d")}, "", "no pod of this name"},
		"none":                          {nil, "", "no pod of this name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newController(snapshottest.Options{Nodes: 1})
			c := newCluster(t, source.server(t))
			standby := newController(snapshottest.Options{})
			standby.err = api.StandbyError{Leader: "another"}
			served := httptest.NewServer(standby.server(t))
			t.Cleanup(served.Close)
			c.standby = served.Listener
			c.leader("kube-system", holder, time.Now())
			delete(c.objects, "/api/v1/namespaces/kube-system/pods/"+holder)
			c.objects["/api/v1/namespaces/kube-system/pods"] = &corev1.PodList{Items: tc.pods}
			client, err := api.Dial(t.Context(), api.Target{Kube: c.kube()})
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if f, err := client.Fleet(t.Context()); err != nil || f.Source != "leader "+tc.want {
				t.Errorf("asked %q, %v; want %s", f.Source, err, tc.want)
			}
			// A connection is two requests here, where WebSocket is refused.
			if sent := c.sent(); len(sent) > 4+2*len(tc.pods) {
				t.Errorf("%d requests to the API server, want at most %d: %q", len(sent), 4+2*len(tc.pods), sent)
			}
		})
	}
}

// A pod that refuses the connection is named with what the kubelet said.
func TestEX_35_PodRefusesConnections(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.leader("kube-system", "dovetail-1", time.Now())
	client, err := api.Dial(t.Context(), api.Target{Kube: c.kube()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Fleet(t.Context())
	if _, unavailable := errors.AsType[api.UnavailableError](err); !unavailable || !strings.Contains(err.Error(), "kube-system/dovetail-1 does not respond") || !strings.Contains(err.Error(), "port 8000: connection refused") {
		t.Errorf("got %v", err)
	}
}
