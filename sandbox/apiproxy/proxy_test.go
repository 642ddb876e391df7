package apiproxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// The control plane that all tests share.
var upstream *harness.Server

func TestMain(m *testing.M) { harness.Main(m, harness.Options{}, &upstream) }

// newProxiedClient returns a client that reaches the API server through a proxy of its own.
func newProxiedClient(t *testing.T) (*apiproxy.Proxy, kubernetes.Interface) {
	t.Helper()
	proxy, err := apiproxy.New(upstream.Config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return proxy, client
}

func set(t *testing.T, p *apiproxy.Proxy, faults ...apiproxy.Fault) {
	t.Helper()
	if err := p.Set(faults...); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsPassWithTheIdentityOfTheProxy(t *testing.T) {
	t.Parallel()
	_, client := newProxiedClient(t)
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestATokenKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	namespace := upstream.Namespace(t)
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "viewer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{given.Status.Token: "system:serviceaccount:" + namespace + ":viewer", "made-up": ""} {
		theirs, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: token})
		if err != nil {
			t.Fatal(err)
		}
		who, err := theirs.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) != (want == "") || err == nil && who.Status.UserInfo.Username != want {
			t.Errorf("a token of %q is taken for one of %q: %v", want, who.Status.UserInfo.Username, err)
		}
	}
}

func TestFaultsByVerbAndResource(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	set(t, proxy, apiproxy.Fault{Verb: "list", Resource: "pods", Status: http.StatusConflict, Count: 2})
	for i := range 2 {
		if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("list %d: %v, want a conflict", i, err)
		}
	}
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the fault was for two requests: %v", err)
	}
	set(t, proxy, apiproxy.Fault{Verb: "list", Resource: "pods", Drop: true})
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("dropped: %v, want an error of the connection", err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("another resource suffers: %v", err)
	}
	set(t, proxy)
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("without faults: %v", err)
	}
}

// Faults can be for objects of a name, and be added and removed beside others.
func TestFaultsSideBySide(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	get := func(name string) error {
		_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	remove, err := proxy.Add(apiproxy.Fault{Resource: "configmaps", Name: "mine-*", Status: http.StatusConflict})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.Add(apiproxy.Fault{Resource: "configmaps", Name: "yours-*", Status: http.StatusTooManyRequests, Count: 2}); err != nil {
		t.Fatal(err)
	}
	if err := get("mine-1"); !apierrors.IsConflict(err) {
		t.Errorf("mine: %v, want a conflict", err)
	}
	if err := get("other"); !apierrors.IsNotFound(err) {
		t.Errorf("another name: %v", err)
	}
	remove()
	remove() // again does nothing
	if err := get("mine-1"); !apierrors.IsNotFound(err) {
		t.Errorf("after it was removed: %v", err)
	}
	if list := proxy.Faults(); len(list) != 1 || list[0].Name != "yours-*" {
		t.Errorf("in force: %+v", list)
	}
	if _, err := proxy.Add(apiproxy.Fault{Name: "[", Status: http.StatusConflict}); err == nil {
		t.Error("a wrong pattern is taken")
	}
}

func TestLatencyEndsWithTheClient(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	set(t, proxy, apiproxy.Fault{Resource: "pods", Latency: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a request that should wait for an hour was served")
	}
}

// A watch is cut in the middle, after it has delivered; the next one works.
func TestWatchesAreCut(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	set(t, proxy, apiproxy.Fault{Verb: "watch", Resource: "configmaps", CutAfter: 300 * time.Millisecond, Count: 1})
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, wantCut := range []bool{true, false} {
		w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if event, open := <-w.ResultChan(); !open || event.Object.(*corev1.ConfigMap).Name == "" {
			t.Errorf("watch %d delivered nothing", i)
		}
		if wantCut {
			for range w.ResultChan() { // ends when the stream is cut; hangs and times out when it is not
			}
		}
		w.Stop()
	}
}

func TestWrongFaultsAreRefused(t *testing.T) {
	t.Parallel()
	proxy, _ := newProxiedClient(t)
	for want, f := range map[string]apiproxy.Fault{
		"nothing goes wrong": {Verb: "get"},
		"negative":           {Status: 500, Count: -1},
		"no HTTP status":     {Status: 999},
		"syntax error":       {Verb: "[", Status: 500},
	} {
		if err := proxy.Set(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
	if len(proxy.Faults()) > 0 {
		t.Error("a refused fault is in force")
	}
}
