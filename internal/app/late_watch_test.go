package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A12: LimitRanges are followed only once they may be read. Until then nothing waits for them, and one warning names
// the right that is missing.
func TestTrust_A12_LimitRangesMayBeForbidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, limitRangesMayBeForbidden)
}

func limitRangesMayBeForbidden(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "limitranges"}, "", errors.New("no rule"))
	responses := []error{errors.New("the server is starting"), denied, denied, nil}
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if _, is := list.(*corev1.LimitRangeList); !is {
			t.Errorf("%T was listed", list)
		}
		err := responses[0]
		responses = responses[1:]
		return err
	}}).Build()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	followed := 0
	l := &lateWatch{
		reader: api, follow: func(context.Context) error { followed++; return nil },
		list: func() client.ObjectList { return &corev1.LimitRangeList{} }, effect: "allow the service account to list and watch limitranges",
	}
	for range 2 {
		if done, err := l.tryWatch(ctx); done || err != nil || followed != 0 {
			t.Fatalf("try() = %v, %v, followed %d times; want to try again later", done, err, followed)
		}
	}
	if err := l.Start(ctx); err != nil || followed != 1 || len(responses) != 0 {
		t.Errorf("Start() = %v, followed %d times, %d responses left; want to follow once it may", err, followed, len(responses))
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "allow the service account to list and watch limitranges") {
		t.Errorf("log: %q, want one line that names the right", lines)
	}
}

// DR-17: an API that is not served, or does not respond, is looked for every minute, one that is forbidden every ten minutes.
func TestDR_17_HowOftenAnAPIIsLookedFor(t *testing.T) {
	t.Parallel()
	group := schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"the API server knows no such kind":         {&apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceSlice"}}, time.Minute},
		"the API server finds no such path":         {apierrors.NewNotFound(group, ""), time.Minute},
		"the API server does not respond":           {errors.New("connection refused"), time.Minute},
		"the service account may not read the kind": {apierrors.NewForbidden(group, "", errors.New("no rule")), 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var attempts []time.Time
				api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					if attempts = append(attempts, time.Now()); len(attempts) == 4 {
						return nil
					}
					return tc.err
				}}).Build()
				l := &lateWatch{
					reader: api, follow: func(context.Context) error { return nil }, list: func() client.ObjectList { return &resourcev1.ResourceSliceList{} },
				}
				if done, err := l.tryWatch(t.Context()); done || err != nil {
					t.Fatalf("tryWatch() = %v, %v", done, err)
				}
				if err := l.Start(t.Context()); err != nil || len(attempts) != 4 {
					t.Fatalf("Start() = %v after %d attempts", err, len(attempts))
				}
				for i := range 3 {
					if got := attempts[i+1].Sub(attempts[i]); got != tc.want {
						t.Errorf("attempt %d came after %s, want %s", i+2, got, tc.want)
					}
				}
			})
		})
	}
}
