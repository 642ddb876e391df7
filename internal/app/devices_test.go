package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// DR-02: an API server that does not serve resource.k8s.io/v1 is said so once, and devices are followed once it does.
func TestDR_02_DevicesMayNotBeServed(t *testing.T) {
	t.Parallel()
	missing := &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceSlice"}, SearchedVersions: []string{"v1"}}
	responses := []error{missing, missing, nil}
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		err := responses[0]
		responses = responses[1:]
		return err
	}}).Build()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	followed := 0
	l := &lateWatch{
		reader: api, follow: func(context.Context) error { followed++; return nil },
		list: func() client.ObjectList { return &resourcev1.ResourceSliceList{} }, effect: "use Kubernetes 1.34 or newer",
	}
	for want := range 3 {
		done, err := l.tryWatch(ctx)
		if err != nil || done != (want == 2) {
			t.Fatalf("attempt %d: %v, %v", want, done, err)
		}
	}
	if followed != 1 || len(lines) != 1 || !strings.Contains(lines[0], "use Kubernetes 1.34 or newer") {
		t.Errorf("followed %d times, log %q", followed, lines)
	}
}

// DR-02: resource.k8s.io/v1 is missing when the controller starts and is served later, as after an upgrade of the control
// plane: the client that the controller uses finds it without a restart.
func TestDR_02_DevicesAreServedLater(t *testing.T) {
	t.Parallel()
	var served atomic.Bool
	respond := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "resource.k8s.io/v1", Version: "v1"}
	api := http.NewServeMux()
	api.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) { respond(w, metav1.APIVersions{Versions: []string{"v1"}}) })
	api.HandleFunc("/api/v1", func(w http.ResponseWriter, _ *http.Request) { respond(w, metav1.APIResourceList{GroupVersion: "v1"}) })
	api.HandleFunc("/apis", func(w http.ResponseWriter, _ *http.Request) {
		groups := metav1.APIGroupList{}
		if served.Load() {
			groups.Groups = []metav1.APIGroup{{Name: "resource.k8s.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}
		}
		respond(w, groups)
	})
	api.HandleFunc("/apis/resource.k8s.io/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !served.Load():
			http.NotFound(w, r)
		case r.URL.Path == "/apis/resource.k8s.io/v1":
			respond(w, metav1.APIResourceList{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "resourceslices", Kind: "ResourceSlice", Verbs: []string{"list", "watch"}}}})
		case r.URL.Path == "/apis/resource.k8s.io/v1/resourceslices":
			respond(w, resourcev1.ResourceSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSliceList"}})
		default: // the group itself
			respond(w, metav1.APIGroup{Name: "resource.k8s.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
	})
	server := httptest.NewServer(api)
	defer server.Close()
	reader, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	l := &lateWatch{
		reader: reader, follow: func(context.Context) error { followed++; return nil },
		list: func() client.ObjectList { return &resourcev1.ResourceSliceList{} }, effect: "use Kubernetes 1.34 or newer",
	}
	for _, now := range []bool{false, false, true} {
		served.Store(now)
		if done, err := l.tryWatch(t.Context()); err != nil || done != now {
			t.Fatalf("served %t: followed %t, %v", now, done, err)
		}
	}
	if followed != 1 {
		t.Errorf("followed %d times", followed)
	}
}
