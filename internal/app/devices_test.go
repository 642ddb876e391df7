package app

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// DR-02: an API server that does not serve resource.k8s.io/v1 is said so once, and devices are followed once it does.
func TestDR_02_DevicesMayNotBeServed(t *testing.T) {
	t.Parallel()
	missing := &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceSlice"}, SearchedVersions: []string{"v1"}}
	answers := []error{missing, missing, nil}
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		err := answers[0]
		answers = answers[1:]
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
