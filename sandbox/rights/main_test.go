package rights_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// What all tests share.
var (
	server *harness.Server
	kube   client.WithWatch
	binary string // the controller
)

func TestMain(m *testing.M) {
	harness.Tune(6, 0) // controllers side by side
	harness.Main(m, harness.Options{World: true, Speed: 1, Boot: 500 * time.Millisecond, Prepare: preparePrograms}, &server)
}

func preparePrograms(ctx context.Context, s *harness.Server) (func(int) (int, error), error) {
	var err error
	if kube, err = harness.NewTyped(s.Config); err != nil {
		return nil, err
	}
	if _, err := s.Control(ctx, http.MethodPut, "timing", harness.QuickInstances); err != nil {
		return nil, err
	}
	binary, err = harness.Dovetail.Build(ctx)
	return func(code int) (int, error) { return code, nil }, err
}
