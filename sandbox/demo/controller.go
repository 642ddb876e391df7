package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

//go:embed invalid.yaml
var invalid []byte

// patience is how long the controller may take for all pools together.
const patience = time.Minute

// runController runs the real binary as a user does, until it has judged every pool.
func (s *show) runController(ctx context.Context) (err error) {
	logFile := filepath.Join(s.dir, "controller.log")
	stop, err := s.startController(ctx, logFile)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := stop(); stopErr != nil {
			text, _ := os.ReadFile(logFile)
			err = errors.Join(err, stopErr, errors.New("its log:\n"+string(text)))
		}
	}()
	manifests, err := kubectl.Read("invalid.yaml", invalid)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if _, err := s.client.Apply(ctx, m.Object); err != nil {
			return err
		}
	}
	pools, err := s.judgedPools(ctx)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		valid, message := validation(pool)
		broken := pool.GetAnnotations()["mistake"] != ""
		switch hash := pool.GetAnnotations()["karpenter.sh/nodepool-hash"]; {
		case valid == broken:
			return fmt.Errorf("NodePool %s: valid is %v, want %v: %s", pool.GetName(), valid, !broken, message)
		case broken:
			s.say("      NodePool %-14s invalid: %s", pool.GetName(), message)
		case hash == "":
			return fmt.Errorf("NodePool %s is valid but has no hash", pool.GetName())
		default:
			s.say("      NodePool %-14s valid, hash %s", pool.GetName(), hash)
		}
	}
	return s.printAssumptions(ctx, "default")
}

// startController returns a function that stops the process and waits for it.
func (s *show) startController(ctx context.Context, logFile string) (stop func() error, err error) {
	binary, err := filepath.Abs(s.Controller)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "controller", "--cluster-name="+clusterName, "--disable-leader-election=true",
		"--metrics-port=0", "--health-probe-port=0", "--log-output-paths="+logFile)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(s.dir, "kubeconfig"))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; make build makes it", err)
	}
	return func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the controller: %w: %s", err, strings.TrimSpace(complaint.String()))
		}
		return nil
	}, nil
}

// judgedPools waits, on a watch, until every pool has its validation condition.
func (s *show) judgedPools(ctx context.Context) ([]*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resource, err := s.client.Of(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, "")
	if err != nil {
		return nil, err
	}
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	judged := map[string]*unstructured.Unstructured{}
	watch, err := resource.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	for len(judged) < len(list.Items) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d NodePools were judged in %s: %w", len(judged), len(list.Items), patience, ctx.Err())
		case event, open := <-watch.ResultChan():
			if !open {
				return nil, errors.New("the watch on NodePools ended early")
			}
			if pool, isPool := event.Object.(*unstructured.Unstructured); isPool && condition(pool, "ValidationSucceeded") != nil {
				judged[pool.GetName()] = pool
			}
		}
	}
	pools := make([]*unstructured.Unstructured, 0, len(judged))
	for _, item := range list.Items { // in the order of the list
		pools = append(pools, judged[item.GetName()])
	}
	return pools, nil
}

func validation(pool *unstructured.Unstructured) (valid bool, message string) {
	c := condition(pool, "ValidationSucceeded")
	status, _ := c["status"].(string)
	message, _ = c["message"].(string)
	return status == string(metav1.ConditionTrue), message
}

// condition returns a condition of an object, or nil while it is missing or Unknown.
func condition(obj *unstructured.Unstructured, name string) map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range list {
		if c, isMap := entry.(map[string]any); isMap && c["type"] == name && c["status"] != string(metav1.ConditionUnknown) {
			return c
		}
	}
	return nil
}

// printAssumptions shows the events of a pool, which are what kubectl describe shows.
func (s *show) printAssumptions(ctx context.Context, pool string) error {
	resource, err := s.client.Of(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watch, err := resource.Watch(ctx, metav1.ListOptions{FieldSelector: "reason=DefaultAssumed"})
	if err != nil {
		return err
	}
	defer watch.Stop()
	s.say("      kubectl describe nodepool %s shows, among its events:", pool)
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no event DefaultAssumed on NodePool %s in %s", pool, patience)
		case event, open := <-watch.ResultChan():
			if !open {
				return errors.New("the watch on events ended early")
			}
			obj, isEvent := event.Object.(*unstructured.Unstructured)
			name, _, _ := unstructured.NestedString(obj.Object, "regarding", "name")
			note, _, _ := unstructured.NestedString(obj.Object, "note")
			if isEvent && name == pool {
				s.say("        Normal  DefaultAssumed  karpenter  %s", note)
				return nil
			}
		}
	}
}
