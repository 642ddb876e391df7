package bars

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// needs says what a scenario is played on.
type needs func(Options) setting

// setting of a scenario.
type setting struct {
	speed     float64  // of the emulated clock; 1 where instances end, whose age counts then
	quick     bool     // instances come and go within moments all the same
	large     bool     // settings of the control plane for a thousand nodes
	metrics   bool     // those of the controller are scraped
	addresses int      // free ones in every subnet; 0 leaves them
	manifests string   // NodeClass and NodePools
	flags     []string // for the controller
}

// How soon machines come and go where a scenario wants them quick.
const (
	bootTime    = 2 * time.Second
	quickTiming = `{"fleetResponse":"100ms","pending":"500ms","shuttingDown":"1s"}`
)

// look is how often a condition is polled that no watch reports.
const look = 100 * time.Millisecond

// logEvery is how often a long wait logs its progress.
const logEvery = 5 * time.Second

// stage is a world with a controller in it, and what is known about the two.
type stage struct {
	Options

	name  string
	dir   string
	began time.Time

	world      *world.World
	controller *world.Controller
	kube       kubernetes.Interface
	pods       *census
	traffic    traffic
	served     string // address of metrics and profiles; empty if not needed
}

func newStage(o Options, name, dir string) *stage {
	return &stage{Options: o, name: name, dir: dir, began: time.Now()}
}

func (s *stage) logProgress(format string, args ...any) {
	fmt.Fprintf(s.Out, "%7.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// start brings up the world, the pools and the controller, and returns when all pools are ready.
func (s *stage) start(ctx context.Context, is setting) (err error) {
	options := world.Options{Dir: s.dir, ControlPlane: s.ControlPlane, Speed: is.speed, Scale: is.large, Nodes: 1}
	if is.quick {
		options.Boot = bootTime
	}
	if s.world, err = world.Start(ctx, options); err != nil {
		s.world = nil // Start stopped it
		return err
	}
	s.world.Proxy.Watch(s.traffic.seeAPI)
	s.world.AWS.Watch(s.traffic.seeAWS)
	if s.kube, err = fakenode.NewClient(s.world.ControlPlane.Config); err != nil {
		return err
	}
	if s.pods, err = startCensus(ctx, s.kube); err != nil {
		return err
	}
	if is.addresses > 0 {
		if err := s.makeRoom(ctx, is.addresses); err != nil {
			return err
		}
	}
	if is.quick {
		if _, err := fetchURL(ctx, http.MethodPut, s.world.AWSEndpoint+"/_dovetail/timing", []byte(quickTiming)); err != nil {
			return err
		}
	}
	pools, err := s.apply(ctx, is.manifests)
	if err != nil {
		return err
	}
	flags, err := s.withPort(ctx, is)
	if err != nil {
		return err
	}
	s.controller, err = s.world.RunController(ctx, world.ControllerOptions{
		// Without nominations the scheduler decides where pods land, and figures of two runs would not compare.
		Binary: s.Binary, Proxied: true, Flags: append(flags, s.Flags...), Installation: world.Installation{Rules: world.Granted("optionalRights.nominatePods=true")},
	})
	if err != nil {
		return err
	}
	began := time.Now()
	err = s.waitUntil(ctx, "all NodePools ready", func() (string, bool, error) {
		n, err := s.readyPools(ctx)
		return fmt.Sprintf("%d of %d NodePools ready", n, pools), n == pools, err
	})
	if err == nil {
		s.logProgress("%d NodePools ready %.1f s after the start of the controller", pools, time.Since(began).Seconds())
	}
	return err
}

// withPort has the controller serve metrics and profiles, if they are needed.
func (s *stage) withPort(ctx context.Context, is setting) ([]string, error) {
	if s.Profiles == "" && !is.metrics {
		return is.flags, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // to learn of a free port
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		return nil, err
	}
	s.served = "http://127.0.0.1:" + port
	flags := append(slices.Clone(is.flags), "--metrics-port="+port)
	if s.Profiles == "" {
		return flags, nil
	}
	return append(flags, "--enable-profiling=true"), os.MkdirAll(s.Profiles, 0o755)
}

// saveProfile keeps a profile of the controller: heap, allocs, goroutine, or profile?seconds=10.
func (s *stage) saveProfile(ctx context.Context, kind, as string) error {
	if s.Profiles == "" {
		return nil
	}
	text, err := fetchURL(ctx, http.MethodGet, s.served+"/debug/pprof/"+kind, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(filepath.Join(s.Profiles, s.name+"-"+as+".pprof"), text, 0o600)
}

// apply sends manifests and returns how many NodePools are among them.
func (s *stage) apply(ctx context.Context, text string) (pools int, err error) {
	manifests, err := kubectl.Read(s.name, []byte(text))
	if err != nil {
		return 0, err
	}
	for _, m := range manifests {
		if _, err := s.world.Kube.Apply(ctx, m.Object); err != nil {
			return pools, err
		}
		if m.Object.GetKind() == nodePool.Kind {
			pools++
		}
	}
	return pools, nil
}

func (s *stage) readyPools(ctx context.Context) (int, error) {
	resource, err := s.world.Kube.Of(nodePool, "")
	if err != nil {
		return 0, err
	}
	list, err := resource.List(ctx, listAll())
	if err != nil {
		return 0, err
	}
	ready := 0
	for _, pool := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(pool.Object, "status", "conditions") // none yet
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == "True" {
				ready++
			}
		}
	}
	return ready, nil
}

// makeRoom gives every subnet free addresses: EC2 has no call for that.
func (s *stage) makeRoom(ctx context.Context, n int) error {
	url := s.world.AWSEndpoint + "/_dovetail/subnets"
	text, err := fetchURL(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	body, err := withFree(text, n)
	if err != nil {
		return err
	}
	_, err = fetchURL(ctx, http.MethodPut, url, body)
	return err
}

// controllerUsage is what the controller uses now.
func (s *stage) controllerUsage() (usage, error) { return processUsage(s.controller.PID()) }

// waitUntil polls until a condition holds, and logs its progress from time to time.
func (s *stage) waitUntil(ctx context.Context, what string, done func() (string, bool, error)) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	logged := time.Now()
	for {
		state, finished, err := done()
		if err != nil || finished {
			return err
		}
		if time.Since(logged) > logEvery {
			s.logProgress("  %s", state)
			logged = time.Now()
		}
		if err := s.wait(ctx, ticker.C); err != nil {
			return fmt.Errorf("waiting for %s, so far %s: %w", what, state, err)
		}
	}
}

// sleepContext does nothing for a while.
func (s *stage) sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return s.wait(ctx, timer.C)
}

func (s *stage) wait(ctx context.Context, until <-chan time.Time) error {
	var ended <-chan error
	if s.controller != nil {
		ended = s.controller.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.world.Err():
		return err
	case err := <-s.world.ControlPlane.Err():
		return err
	case err := <-ended:
		return err
	case <-until:
		return nil
	}
}

// lastWords of the controller, for an error: its folder may be gone soon.
func (s *stage) lastWords() error {
	if s.controller == nil {
		return nil
	}
	text, err := os.ReadFile(s.controller.Log)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("the log of the controller ends with:\n%s", strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

// stop ends everything that runs. It is not interrupted: what it does takes seconds.
func (s *stage) stop() error {
	var errs []error
	if s.pods != nil {
		s.pods.stop()
	}
	if s.controller != nil {
		errs = append(errs, s.controller.Stop())
	}
	if s.world != nil {
		errs = append(errs, s.world.Stop())
	}
	return errors.Join(errs...)
}

// fetchURL sends one request and returns its response.
func fetchURL(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(url + ": " + strconv.Itoa(response.StatusCode) + " " + string(text))
	}
	return text, err
}
