package containers

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// setup is what a container needs before it can start.
type setup struct {
	runtime     *Runtime
	pod         *corev1.Pod
	container   *corev1.Container
	allocatable corev1.ResourceList
	dir         string

	mounts map[string]string // folder here by path in the container
	tokens []*token
	ports  map[int32]int
	args   []string
	env    []string
}

func (s *setup) prepareContainer(ctx context.Context) error {
	if err := s.mountVolumes(ctx); err != nil {
		return err
	}
	values, err := s.containerEnvironment(ctx)
	if err != nil {
		return err
	}
	mapping := expansion.MappingFuncFor(values)
	for _, arg := range slices.Concat(s.container.Command[min(1, len(s.container.Command)):], s.container.Args) {
		s.args = append(s.args, s.localPath(expansion.Expand(arg, mapping)))
	}
	if err := s.mapPorts(ctx, values); err != nil {
		return err
	}
	if kubeconfig, err := s.kubeconfig(); err != nil {
		return err
	} else if kubeconfig != "" {
		values["KUBECONFIG"] = kubeconfig
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s.env = append(s.env, name+"="+s.localPath(values[name]))
	}
	return nil
}

// localPath is a text in which a path of a mount, if it begins with one, is that of the folder that stands for it.
func (s *setup) localPath(text string) string {
	before, path, flag := strings.Cut(text, "=")
	if !flag || !strings.HasPrefix(before, "-") {
		before, path = "", text
	} else {
		before += "="
	}
	for mount, folder := range s.mounts {
		if rest, below := strings.CutPrefix(path, strings.TrimSuffix(mount, "/")); below && (rest == "" || rest[0] == '/') {
			return before + folder + rest
		}
	}
	return text
}

// containerEnvironment are the environment of the container, as a kubelet puts it together.
func (s *setup) containerEnvironment(ctx context.Context) (map[string]string, error) {
	values := map[string]string{"PATH": os.Getenv("PATH"), "HOME": s.dir, "TMPDIR": os.TempDir(), "HOSTNAME": s.pod.Name}
	resolves := s.runtime.Resolves == nil || s.runtime.Resolves(s.pod.Spec.DNSPolicy)
	for _, line := range s.runtime.Network {
		name, value, _ := strings.Cut(line, "=")
		if !resolves {
			value = strings.Replace(value, "://127.0.0.1:", "://aws.sandbox.invalid:", 1) // a name that never exists (RFC 6761)
		}
		values[name] = value
	}
	for _, from := range s.container.EnvFrom {
		if err := s.addAll(ctx, from, values); err != nil {
			return nil, err
		}
	}
	for _, e := range s.container.Env {
		value, there := expansion.Expand(e.Value, expansion.MappingFuncFor(values)), true
		if e.ValueFrom != nil {
			var err error
			if value, there, err = s.valueFrom(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		if there {
			values[e.Name] = value
		}
	}
	return values, nil
}

func (s *setup) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, there bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = s.downwardField(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		name := from.ResourceFieldRef.ContainerName
		if name == "" {
			name = s.container.Name
		}
		value, err = resourcehelper.ExtractResourceValueByContainerNameAndNodeAllocatable(from.ResourceFieldRef, s.pod, name, s.allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := s.configMap(ctx, ref.Name, ref.Optional)
		return keyOf(data, "ConfigMap "+ref.Name, ref.Key, ref.Optional, err)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := s.secretData(ctx, ref.Name, ref.Optional)
		return keyOf(data, "Secret "+ref.Name, ref.Key, ref.Optional, err)
	}
	return "", false, fmt.Errorf("the sandbox does not know where it comes from")
}

func keyOf(data map[string]string, what, key string, optional *bool, err error) (value string, there bool, _ error) {
	if err != nil {
		return "", false, err
	}
	value, there = data[key]
	if !there && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s", key, what)
	}
	return value, there, nil
}

// downwardField is one of the pod, as the downward API gives it.
func (s *setup) downwardField(path string) (string, error) {
	p := s.pod
	switch path {
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return p.Status.HostIP, nil
	case "status.podIP", "status.podIPs":
		return p.Status.PodIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(p, path)
}

func (s *setup) addAll(ctx context.Context, from corev1.EnvFromSource, values map[string]string) error {
	var data map[string]string
	var err error
	switch {
	case from.ConfigMapRef != nil:
		data, err = s.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		data, err = s.secretData(ctx, from.SecretRef.Name, from.SecretRef.Optional)
	}
	for key, value := range data {
		values[from.Prefix+key] = value
	}
	return err
}

func (s *setup) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	found, err := s.runtime.Client.CoreV1().ConfigMaps(s.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, ignoreIfOptional(optional, err)
	}
	return found.Data, nil
}

func (s *setup) secretData(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	found, err := s.runtime.Client.CoreV1().Secrets(s.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, ignoreIfOptional(optional, err)
	}
	data := map[string]string{}
	for key, value := range found.Data {
		data[key] = string(value)
	}
	return data, nil
}

// ignoreIfOptional is the error, but for an object that need not be there.
func ignoreIfOptional(optional *bool, err error) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// listener is a port that the program listens on, and what sets it.
type listener struct {
	flag, variable string
	byDefault      int32
}

// mapPorts has the program listen on free ports of this machine, so that several pods can run on it. It changes nothing
// where the container does not say that it has ports.
func (s *setup) mapPorts(ctx context.Context, values map[string]string) error {
	s.ports = map[int32]int{}
	if len(s.container.Ports) == 0 {
		return nil
	}
	for _, l := range []listener{{"--metrics-port", "METRICS_PORT", 8080}, {"--health-probe-port", "HEALTH_PROBE_PORT", 8081}} {
		port, arg := l.byDefault, -1
		if n, err := strconv.ParseInt(values[l.variable], 10, 32); err == nil {
			port = int32(n)
		}
		for i, a := range s.args {
			if n, err := strconv.ParseInt(strings.TrimPrefix(a, l.flag+"="), 10, 32); err == nil {
				port, arg = int32(n), i
			}
		}
		local, err := freePort(ctx)
		if err != nil {
			return err
		}
		s.ports[port], values[l.variable] = local, strconv.Itoa(local)
		if arg >= 0 {
			s.args[arg] = fmt.Sprintf("%s=%d", l.flag, local)
		}
	}
	return nil
}

// freePort is a port that is free now.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := 0
	if address, ok := l.Addr().(*net.TCPAddr); ok {
		port = address.Port
	}
	return port, l.Close()
}

func (s *setup) volumeDir(name string) string { return filepath.Join(s.dir, "volumes", name) }
