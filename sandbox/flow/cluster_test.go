package flow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// cluster is a control plane with an emulated account, nodes and a controller, and with the invariants checked
// all the time.
type cluster struct {
	server     *harness.Server
	world      *world.World
	kube       client.WithWatch
	checker    *invariant.Checker
	controller *world.Controller
	served     string // where the controller serves its metrics and decisions
	view       *view
	lags       lags

	number int
	end    func() error

	// Of the clusters, and locked by them.
	mode   mode
	inside int
}

// lags is what of the account is seen late, and how late.
type lags struct {
	sync.Mutex

	by map[string]awsemu.Duration
}

// startCluster brings a cluster up in a folder.
func startCluster(ctx context.Context, dir string, number int) (*cluster, error) {
	s, err := harness.Start(ctx, dir, harness.Options{World: true, Speed: 1, Boot: 500 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	c := &cluster{server: s, world: s.World, number: number, lags: lags{by: map[string]awsemu.Duration{}}}
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	c.end = sync.OnceValue(func() error {
		var errs []error
		if c.controller != nil {
			errs = append(errs, c.controller.Stop())
		}
		stop()
		running.Wait()
		return errors.Join(append(errs, s.Stop())...)
	})
	if err := c.startController(following, &running); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// startController runs the controller, and has the invariants checked.
func (c *cluster) startController(ctx context.Context, running *sync.WaitGroup) error {
	var err error
	if c.kube, err = harness.NewTyped(c.server.Config); err != nil {
		return err
	}
	if _, err := c.server.Control(ctx, http.MethodPut, "timing", harness.QuickInstances); err != nil {
		return err
	}
	port, err := harness.LastingPort(ctx)
	if err != nil {
		return err
	}
	c.served = fmt.Sprintf("http://127.0.0.1:%d", port)
	c.checker = invariant.New(invariant.Options{Cluster: world.Cluster, Role: world.ControllerRole})
	running.Go(func() {
		c.checker.Follow(ctx, invariant.Sources{Kube: c.kube, AWS: c.world.AWS, Proxy: c.world.Proxy})
	})
	if c.view, err = newView(ctx, c.server.Config, c.kube, c.world.AWS, running); err != nil {
		return err
	}
	c.controller, err = c.world.RunController(ctx, world.ControllerOptions{
		Binary: binary, Proxied: true, Restart: true, Flags: []string{"--log-level=debug", staticPools, fmt.Sprintf("--metrics-port=%d", port)},
	})
	return err
}

// stop ends the cluster, and reports which invariants did not hold.
func (c *cluster) stop() ([]*invariant.Violation, error) {
	err := c.end()
	return c.checker.Violations(), err
}
