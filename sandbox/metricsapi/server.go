package metricsapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Group and version of the API, and its path.
const (
	Group        = "metrics.k8s.io"
	Version      = "v1beta1"
	groupVersion = Group + "/" + Version
	root         = "/apis/" + groupVersion
)

// window is the time over which a metrics-server measures.
const window = 30 * time.Second

// New returns a handler that reads nodes and pods through the client for every request.
func New(client kubernetes.Interface) http.Handler {
	s := &server{client: client}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, apiResources()) })
	mux.HandleFunc("GET "+root+"/nodes", s.writeObject(s.nodes))
	mux.HandleFunc("GET "+root+"/nodes/{name}", s.writeObject(s.node))
	mux.HandleFunc("GET "+root+"/pods", s.writeObject(s.pods))
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods", s.writeObject(s.pods))
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods/{name}", s.writeObject(s.pod))
	return mux
}

type server struct{ client kubernetes.Interface }

// writeObject writes the object, or the error in the form of Kubernetes.
func (s *server) writeObject(find func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		object, err := find(r)
		if err == nil {
			write(w, http.StatusOK, object)
			return
		}
		status := apierrors.NewInternalError(err).Status()
		if known := apierrors.APIStatus(nil); errors.As(err, &known) {
			status = known.Status()
		}
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		write(w, int(status.Code), status)
	}
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the reader may be gone
}

func apiResources() metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion,
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Verbs: verbs, Namespaced: true},
		},
	}
}

// listOptions passes the selectors of a request on. The response may come from the API server's cache.
func listOptions(r *http.Request) metav1.ListOptions {
	query := r.URL.Query()
	return metav1.ListOptions{LabelSelector: query.Get("labelSelector"), FieldSelector: query.Get("fieldSelector"), ResourceVersion: "0"}
}

func (s *server) nodes(r *http.Request) (any, error) {
	nodes, err := s.client.CoreV1().Nodes().List(r.Context(), listOptions(r))
	if err != nil {
		return nil, err
	}
	used, err := s.usedByNode(r, "")
	if err != nil {
		return nil, err
	}
	list := metricsv1beta1.NodeMetricsList{TypeMeta: typeMeta("NodeMetricsList"), Items: []metricsv1beta1.NodeMetrics{}}
	for _, n := range nodes.Items {
		if ready(&n) {
			list.Items = append(list.Items, nodeMetrics(&n, used[n.Name]))
		}
	}
	return list, nil
}

func (s *server) node(r *http.Request) (any, error) {
	n, err := s.client.CoreV1().Nodes().Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	used, err := s.usedByNode(r, n.Name)
	if err != nil {
		return nil, err
	}
	return nodeMetrics(n, used[n.Name]), nil
}

// usedByNode is what the pods of one node, or of each, use together.
func (s *server) usedByNode(r *http.Request, node string) (map[string]corev1.ResourceList, error) {
	options := metav1.ListOptions{ResourceVersion: "0"}
	if node != "" {
		options.FieldSelector = "spec.nodeName=" + node
	}
	pods, err := s.client.CoreV1().Pods(metav1.NamespaceAll).List(r.Context(), options)
	if err != nil {
		return nil, err
	}
	used := map[string]corev1.ResourceList{}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		sum := used[p.Spec.NodeName]
		if sum == nil {
			sum = zeroUsage()
			used[p.Spec.NodeName] = sum
		}
		for _, c := range p.Spec.Containers {
			add(sum, c.Resources.Requests)
		}
	}
	return used, nil
}

func (s *server) pods(r *http.Request) (any, error) {
	pods, err := s.client.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), listOptions(r))
	if err != nil {
		return nil, err
	}
	list := metricsv1beta1.PodMetricsList{TypeMeta: typeMeta("PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning {
			list.Items = append(list.Items, podMetrics(&p))
		}
	}
	return list, nil
}

func (s *server) pod(r *http.Request) (any, error) {
	p, err := s.client.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if p.Status.Phase != corev1.PodRunning {
		return nil, apierrors.NewNotFound(metricsv1beta1.Resource("podmetrics"), p.Namespace+"/"+p.Name)
	}
	return podMetrics(p), nil
}

func typeMeta(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: groupVersion, Kind: name}
}

func nodeMetrics(n *corev1.Node, used corev1.ResourceList) metricsv1beta1.NodeMetrics {
	if used == nil {
		used = zeroUsage()
	}
	return metricsv1beta1.NodeMetrics{
		TypeMeta: typeMeta("NodeMetrics"), ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels},
		Timestamp: metav1.Now(), Window: metav1.Duration{Duration: window}, Usage: used,
	}
}

func podMetrics(p *corev1.Pod) metricsv1beta1.PodMetrics {
	m := metricsv1beta1.PodMetrics{
		TypeMeta: typeMeta("PodMetrics"), ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels},
		Timestamp: metav1.Now(), Window: metav1.Duration{Duration: window},
	}
	for _, c := range p.Spec.Containers {
		used := zeroUsage()
		add(used, c.Resources.Requests)
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: used})
	}
	return m
}

// zeroUsage has both resources: clients take one that is missing for a mistake.
func zeroUsage() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: {}, corev1.ResourceMemory: {}}
}

func add(sum, more corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, there := more[name]; there {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
