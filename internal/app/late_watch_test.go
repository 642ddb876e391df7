package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "limitranges"}, "", errors.New("no rule"))
	answers := []error{errors.New("the server is starting"), denied, denied, nil}
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if _, is := list.(*corev1.LimitRangeList); !is {
			t.Errorf("%T was listed", list)
		}
		err := answers[0]
		answers = answers[1:]
		return err
	}}).Build()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	followed := 0
	l := &lateWatch{
		reader: api, every: time.Millisecond, follow: func(context.Context) error { followed++; return nil },
		list: func() client.ObjectList { return &corev1.LimitRangeList{} }, effect: "allow the service account to list and watch limitranges",
	}
	for range 2 {
		if done, err := l.tryWatch(ctx); done || err != nil || followed != 0 {
			t.Fatalf("try() = %v, %v, followed %d times; want to try again later", done, err, followed)
		}
	}
	if err := l.Start(ctx); err != nil || followed != 1 || len(answers) != 0 {
		t.Errorf("Start() = %v, followed %d times, %d answers left; want to follow once it may", err, followed, len(answers))
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "allow the service account to list and watch limitranges") {
		t.Errorf("log: %q, want one line that names the right", lines)
	}
}
