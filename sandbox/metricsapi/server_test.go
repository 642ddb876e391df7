package metricsapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dovetail-sh/dovetail/sandbox/metricsapi"
)

func pod(namespace, name string, phase corev1.PodPhase, requests ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
	p.Spec.NodeName, p.Status.Phase = "one", phase
	for i, cpu := range requests {
		c := corev1.Container{Name: string(rune('a' + i))}
		if cpu != "" {
			c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi"), "x/y": resource.MustParse("1")}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func TestServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(metricsapi.New(fake.NewClientset(
		node("one", corev1.ConditionTrue), node("down", corev1.ConditionFalse), node("empty", corev1.ConditionTrue),
		pod("ns", "web", corev1.PodRunning, "100m", "200m", ""), pod("ns", "waits", corev1.PodPending, "1"), pod("other", "db", corev1.PodRunning, "1"),
	)))
	t.Cleanup(server.Close)
	for path, tc := range map[string]struct {
		status int
		want   []string
		avoid  []string
	}{
		"":                           {200, []string{`"nodes"`, `"pods"`, "APIResourceList"}, nil},
		"/nodes":                     {200, []string{`"NodeMetricsList"`, `"one"`, `"cpu":"1300m"`, `"memory":"3Gi"`, `"empty"`, `"cpu":"0"`}, []string{"down", "x/y"}},
		"/nodes/one":                 {200, []string{`"NodeMetrics"`, `"cpu":"1300m"`}, []string{"empty"}},
		"/nodes/two":                 {404, []string{`"Status"`, "NotFound"}, nil},
		"/pods":                      {200, []string{`"web"`, `"db"`, `"cpu":"100m"`, `"cpu":"200m"`, `"cpu":"0"`}, []string{"waits"}},
		"/pods?labelSelector=app=db": {200, []string{`"db"`}, []string{"web"}},
		"/namespaces/ns/pods":        {200, []string{`"web"`}, []string{"db"}},
		"/namespaces/ns/pods/web":    {200, []string{`"PodMetrics"`, `"window":"30s"`}, nil},
		"/namespaces/ns/pods/waits":  {404, []string{"NotFound"}, nil},
		"/services":                  {404, nil, nil},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/apis/metrics.k8s.io/v1beta1"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != tc.status || tc.want != nil && !json.Valid(text) {
			t.Errorf("%s: status %d, want %d: %s %v", path, response.StatusCode, tc.status, text, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s: %s", path, want, text)
			}
		}
		for _, avoid := range tc.avoid {
			if strings.Contains(string(text), avoid) {
				t.Errorf("%s has %s: %s", path, avoid, text)
			}
		}
	}
}
