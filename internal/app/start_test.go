package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// C10: what keeps the controller from starting is reported in one line with the flag that fixes it.
func TestTrust_C10_ErrorsOfTheStartNameTheFlag(t *testing.T) {
	t.Parallel()
	refused := func(port int, why error) error {
		err := &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{Port: port}, Err: os.NewSyscallError("bind", why)}
		return fmt.Errorf("failed to start metrics server: failed to create listener: %w", err)
	}
	ports := config.Config{Leader: config.Leader{Namespace: "kube-system"}, Server: config.Server{MetricsPort: 8080, HealthProbePort: 81}}
	for name, tc := range map[string]struct {
		cfg  config.Config
		err  error
		want []string // none: the cluster is to blame
	}{
		"the metrics port is busy":           {cfg: ports, err: refused(8080, syscall.EADDRINUSE), want: []string{"port 8080 is in use", "--metrics-port"}},
		"the health port is for root":        {cfg: ports, err: refused(81, syscall.EACCES), want: []string{"port 81 may not be opened", "--health-probe-port"}},
		"a port that is not ours":            {cfg: ports, err: refused(9000, syscall.EADDRINUSE)},
		"no namespace for the lease":         {err: errors.New("unable to find leader election namespace: not running in-cluster"), want: []string{"--leader-election-namespace", "--disable-leader-election"}},
		"the lease has one, something fails": {cfg: ports, err: errors.New("leader election namespace"), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := managerError(tc.err, tc.cfg, &rest.Config{Host: "https://example.com"}).Error()
			if len(tc.want) == 0 {
				tc.want = []string{"https://example.com cannot be used"}
			}
			for _, part := range tc.want {
				if !strings.Contains(text, part) || strings.Contains(text, "\n") {
					t.Errorf("%q does not say %q in one line", text, part)
				}
			}
		})
	}
}

// The manager's own error of a busy port is one that is recognized.
func TestTrust_C10_ABusyPortIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := config.Config{Leader: config.Leader{Disabled: true}, Server: config.Server{HealthProbePort: taken.Addr().(*net.TCPAddr).Port}}
	_, err = ctrl.NewManager(&rest.Config{Host: "http://localhost:1"}, ctrl.Options{
		HealthProbeBindAddress: address(cfg.Server.HealthProbePort), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err = errorWithFlag(err, cfg); err == nil || !strings.Contains(err.Error(), "--health-probe-port") {
		t.Errorf("got %v, want the flag", err)
	}
}

func TestTrust_C10_AMissingNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme(aws.Driver())
	if err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}}).Build()
	for name, tc := range map[string]struct {
		leader config.Leader
		fails  bool
	}{
		"it exists":     {leader: config.Leader{Namespace: "here"}},
		"it does not":   {leader: config.Leader{Namespace: "there"}, fails: true},
		"not requested": {leader: config.Leader{Namespace: "there", Disabled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hasNamespace(t.Context(), reader, config.Config{Leader: tc.leader})
			if tc.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), "--leader-election-namespace") {
				t.Errorf("got %v", err)
			}
		})
	}
}
