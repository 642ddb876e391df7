package world

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// standsForLabel marks the Deployment that stands for the controller process, and its pod.
const standsForLabel = "sandbox.dovetail.sh/stands-for"

const (
	controllerProcess = "controller-process"
	standInName       = "karpenter"
)

// ControllerOptions say which controller runs in a world, and how. Only Binary is required.
type ControllerOptions struct {
	// Binary is the dovetail to run.
	Binary string
	// Namespace of the Deployment that stands for it; empty means kube-system.
	Namespace string
	// Flags and Env are added to those it needs; a flag given again wins.
	Flags, Env []string
	// LeaderElection has it take the lease, in its namespace. Without, it acts at once.
	LeaderElection bool
	// Proxied sends its requests to the API server through the proxy, where they can be seen and disturbed.
	Proxied bool
	// Restart runs it again whenever it ends, as a Deployment does.
	Restart bool
	// Deployed has it live as its Deployment says: it takes the lease and is run again when it ends; the environment of
	// the Deployment is added to its own, and a change of that, a restart of the rollout or a new number of replicas
	// reaches it; its ports are those of the pod, for kubectl port-forward.
	Deployed bool
	// Ended is told of each end after which it is run again; nil: nobody is.
	Ended func(error)
	// Log is the name of its log in the folder of the world; empty means controller.log, which is the one
	// that kubectl logs shows.
	Log string
}

// The pause before a controller that ended runs again. It doubles while the process ends soon after its start.
const (
	restartDelay = 200 * time.Millisecond
	longestDelay = 10 * time.Second
	livedLong    = 30 * time.Second
)

// Controller is a process that lives in a world. In the cluster a Deployment named karpenter stands for
// it, so that the commands find it that users know: its pod runs nothing, and the log of that pod is
// the log of the process.
type Controller struct {
	// Log is the file that the process writes to, all its starts one after the other.
	Log string

	world   *World
	options ControllerOptions
	ended   chan error
	stop    func() error

	metrics, health int                // its ports; 0: it takes any
	unfollow        context.CancelFunc // ends what follows the Deployment
	following       sync.WaitGroup

	mu       sync.Mutex
	running  *process // nil while none does
	starts   int
	held     bool // down until Start
	stopped  bool
	delay    time.Duration // before the next start
	deployed []string      // the environment of the Deployment
}

// process is one start of a controller.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when it ended
	expected bool          // it was killed or stopped on purpose
	began    time.Time
}

// Err tells when the process ended although nobody stopped or killed it, and is not run again.
func (c *Controller) Err() <-chan error { return c.ended }

// Stop ends the process, waits for it, and takes the Deployment away.
func (c *Controller) Stop() error { return c.stop() }

// Starts is how often the process was started.
func (c *Controller) Starts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// Kill ends the process as a crash does, without notice, and returns when it is gone. With Restart it
// runs again a moment later; without, Start does that.
func (c *Controller) Kill() {
	if p := c.signal(syscall.SIGKILL, true); p != nil {
		<-p.done
	}
}

// Hold ends the process like Kill, and keeps it down until Start.
func (c *Controller) Hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
	c.Kill()
}

// Pause stops the process in the middle of what it does, until Resume.
func (c *Controller) Pause() { c.signal(syscall.SIGSTOP, false) }

// Resume lets a paused process go on.
func (c *Controller) Resume() { c.signal(syscall.SIGCONT, false) }

// signal sends a signal to the process if there is one, and returns it.
func (c *Controller) signal(s syscall.Signal, ends bool) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil
	}
	c.running.expected = c.running.expected || ends
	_ = c.running.cmd.Process.Signal(s) // it may be gone already
	return c.running
}

// RunController runs the binary that users run, with the environment that users source.
func (w *World) RunController(ctx context.Context, o ControllerOptions) (*Controller, error) {
	if o.Namespace == "" {
		o.Namespace = metav1.NamespaceSystem
	}
	if o.Log == "" {
		o.Log = filepath.Base(w.controllerLog())
	}
	o.Restart, o.LeaderElection = o.Restart || o.Deployed, o.LeaderElection || o.Deployed
	c := &Controller{Log: filepath.Join(w.dir, o.Log), world: w, options: o, ended: make(chan error, 1), unfollow: func() {}}
	if o.Deployed {
		var err error
		if c.metrics, err = freePort(ctx); err != nil {
			return nil, err
		}
		if c.health, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(c.Log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c.stop = sync.OnceValue(func() error {
		c.unfollow()
		c.following.Wait()
		c.mu.Lock()
		c.stopped = true
		c.mu.Unlock()
		c.terminate()
		w.deployed.CompareAndSwap(c, nil)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // the API server may be what failed
		defer cancel()
		return w.removeStandIns(limited)
	})
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	if err := w.createStandIn(ctx, o, c.PID()); err != nil {
		return nil, errors.Join(fmt.Errorf("the Deployment that stands for the controller: %w", err), c.Stop())
	}
	if o.Deployed {
		w.deployed.Store(c)
		if err := c.follow(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the Deployment that stands for the controller: %w", err), c.Stop())
		}
	}
	return c, nil
}

// terminate ends the process as a kubelet does, in order, and returns when it is gone.
func (c *Controller) terminate() {
	if p := c.signal(syscall.SIGTERM, true); p != nil {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // one that is paused would never end
		<-p.done
	}
}

// PID is the process id of the controller; 0 while none runs.
func (c *Controller) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return 0 // it ended at once; Err tells
	}
	return c.running.cmd.Process.Pid
}

// Start runs the process again after Hold, or after Kill where nothing restarts it. One that runs goes on.
func (c *Controller) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.launch(ctx)
}

// restart is Start unless the process is held down.
func (c *Controller) restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil
	}
	return c.launch(ctx)
}

// launch starts the process if it should run and does not. The controller must be locked.
func (c *Controller) launch(ctx context.Context) error {
	if c.stopped || c.running != nil {
		return nil
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.options.Binary, c.arguments()...)
	cmd.Env = append(append(os.Environ(), c.world.Environment()...), c.environment()...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("%w; make build makes it", err), log.Close())
	}
	p := &process{cmd: cmd, done: make(chan struct{}), began: time.Now()}
	c.running = p
	c.starts++
	go func() {
		err := cmd.Wait()
		_ = log.Close() // what matters was written by the process
		c.gone(ctx, p, err)
	}()
	return nil
}

// arguments are those of the binary.
func (c *Controller) arguments() []string {
	arguments := []string{"controller", fmt.Sprintf("--metrics-port=%d", c.metrics), fmt.Sprintf("--health-probe-port=%d", c.health)}
	if c.options.LeaderElection {
		arguments = append(arguments, "--leader-election-namespace="+c.options.Namespace)
	} else {
		arguments = append(arguments, "--disable-leader-election=true")
	}
	return append(arguments, c.options.Flags...)
}

func (c *Controller) environment() []string {
	var env []string
	if c.options.Proxied {
		// The proxy speaks plain HTTP, so that its kubeconfig has no certificate for nodes to learn.
		env = append(env, "KUBECONFIG="+filepath.Join(c.world.dir, "proxy.kubeconfig"),
			"CLUSTER_CA_BUNDLE="+base64.StdEncoding.EncodeToString(c.world.ControlPlane.Config.CAData))
	}
	return append(append(env, c.options.Env...), c.deployed...)
}

// gone tells of a process that ended, and runs it again if it should.
func (c *Controller) gone(ctx context.Context, p *process, err error) {
	c.mu.Lock()
	c.running = nil
	again, told := c.options.Restart && !c.stopped, !p.expected
	if c.delay = min(max(restartDelay, 2*c.delay), longestDelay); p.expected || time.Since(p.began) > livedLong {
		c.delay = restartDelay
	}
	delay, held := c.delay, c.held
	c.mu.Unlock()
	close(p.done)
	if again {
		if told && !held && c.options.Ended != nil {
			c.options.Ended(fmt.Errorf("the controller ended (%w) and is run again; see %s", cmp.Or(err, errors.New("exit status 0")), c.Log))
		}
		time.Sleep(delay)
		err, told = c.restart(ctx), true
		if err == nil {
			return
		}
	}
	if !told {
		return
	}
	text := fmt.Errorf("the controller ended; see %s", c.Log)
	if err != nil {
		text = fmt.Errorf("the controller ended: %w; see %s", err, c.Log)
	}
	select {
	case c.ended <- text:
	default: // somebody was told already
	}
}

func (w *World) controllerLog() string { return filepath.Join(w.dir, "controller.log") }

// logFile is the log of the controller for the pod that stands for it.
func (w *World) logFile(p *corev1.Pod) string {
	if p.Labels[standsForLabel] == controllerProcess {
		return w.controllerLog()
	}
	return ""
}

func (w *World) createStandIn(ctx context.Context, o ControllerOptions, pid int) error {
	namespace := o.Namespace
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if o.Deployed {
		_, err = client.CoreV1().Services(namespace).Create(ctx, standInService(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, err = client.AppsV1().Deployments(namespace).Create(ctx, standIn(pid, o.Env), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // of another replica
	}
	return err
}

// removeStandIns takes away what stands for a controller that does not run: of this run, or of an
// earlier one that was killed.
func (w *World) removeStandIns(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	list, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: standsForLabel})
	if err != nil {
		return err
	}
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: standsForLabel})
	if err != nil {
		return err
	}
	for _, s := range services.Items {
		if err := client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, d := range list.Items {
		err := client.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// standIn has the names, labels and place that the chart gives to a controller (install 1 to 5), with
// one replica.
func standIn(pid int, env []string) *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	labels := map[string]string{standsForLabel: controllerProcess}
	maps.Copy(labels, selector)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: standInName, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					fakenode.StopAfterAnnotation:  "0s", // the process has ended before
					"sandbox.dovetail.sh/process": fmt.Sprintf("This pod runs nothing. It stands for process %d outside of the cluster.", pid),
				}},
				Spec: corev1.PodSpec{
					PriorityClassName: "system-cluster-critical",
					Tolerations:       []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpDoesNotExist},
						}}},
					}}},
					Containers: []corev1.Container{{
						Name: "controller", Image: "dovetail", Env: containerEnv(env),
						Ports: []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: metricsPort}, {Name: "http", ContainerPort: healthPort}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
						}},
					}},
				},
			},
		},
	}
}
