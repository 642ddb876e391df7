package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/near"
)

// maxAdded is how many pods a change may add: a mistyped number of replicas must not take all memory.
const maxAdded = 30_000

// annotationDefaultClass marks the StorageClass of claims that name none.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// addPods adds the pods of manifests as pending pods. The error names the document and what is malformed.
func (f *File) addPods(manifests string) error {
	if strings.TrimSpace(manifests) == "" {
		return nil
	}
	a := &podAdder{file: f, names: map[string]bool{}}
	for i := range f.Objects.Pods {
		a.names[f.Objects.Pods[i].Namespace+"/"+f.Objects.Pods[i].Name] = true
	}
	f.Objects.Pods = append([]corev1.Pod(nil), f.Objects.Pods...)
	f.Objects.VolumeClaims = append([]corev1.PersistentVolumeClaim(nil), f.Objects.VolumeClaims...)
	f.Objects.DaemonSets = append([]appsv1.DaemonSet(nil), f.Objects.DaemonSets...)
	reader := kyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = a.document(document)
		}
		if err != nil {
			return fmt.Errorf("pods to add, document %d: %w", n, err)
		}
	}
	if a.added == 0 && a.daemons == 0 {
		return errors.New("pods to add: the manifests have none")
	}
	return nil
}

type podAdder struct {
	file           *File
	names          map[string]bool // of all pods, namespace/name
	added, daemons int
}

func addedKinds() []string {
	return []string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "List"}
}

// document adds what one document has.
func (a *podAdder) document(text []byte) error {
	if onlyComments(text) {
		return nil
	}
	var kind struct {
		metav1.TypeMeta `json:",inline"`
		Items           []any `json:"items"`
	}
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return yamlError(err)
	}
	switch kind.Kind {
	case "Pod":
		return a.pod(text)
	case "Deployment":
		return add(a, text, func(d *appsv1.Deployment) (metav1.ObjectMeta, corev1.PodTemplateSpec, int32) {
			return d.ObjectMeta, d.Spec.Template, one(d.Spec.Replicas)
		}, "ReplicaSet")
	case "ReplicaSet":
		return add(a, text, func(r *appsv1.ReplicaSet) (metav1.ObjectMeta, corev1.PodTemplateSpec, int32) {
			return r.ObjectMeta, r.Spec.Template, one(r.Spec.Replicas)
		}, kind.Kind)
	case "StatefulSet":
		return a.statefulSet(text)
	case "Job":
		return add(a, text, func(j *batchv1.Job) (metav1.ObjectMeta, corev1.PodTemplateSpec, int32) {
			return j.ObjectMeta, j.Spec.Template, min(one(j.Spec.Parallelism), one(j.Spec.Completions, j.Spec.Parallelism))
		}, kind.Kind)
	case "DaemonSet":
		return a.daemonSet(text)
	case "List":
		for i, item := range kind.Items {
			inner, err := yaml.Marshal(item)
			if err == nil {
				err = a.document(inner)
			}
			if err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	case "":
		return errors.New("it has no kind")
	}
	return fmt.Errorf("kind %s has no pods to add%s; want %s", kind.Kind, near.Hint(kind.Kind, addedKinds()), strings.Join(addedKinds(), ", "))
}

func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// yamlError is an error of a document in words that start with what is wrong.
func yamlError(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(text)
}

// readStrict reads an object. A field that its kind does not have is an error that names the nearest one.
func readStrict(text []byte, into any) error {
	var fields any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return yamlError(err)
	}
	if err := checkFields(reflect.TypeOf(into), fields, ""); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return yamlError(err)
	}
	return nil
}

// one is the first number that is given, or 1.
func one(numbers ...*int32) int32 {
	for _, n := range numbers {
		if n != nil {
			return *n
		}
	}
	return 1
}

// add adds the pods of a workload. owner is the kind of the controller that the pods have.
func add[T any](a *podAdder, text []byte, read func(*T) (metav1.ObjectMeta, corev1.PodTemplateSpec, int32), owner string) error {
	var object T
	if err := readStrict(text, &object); err != nil {
		return err
	}
	m, template, replicas := read(&object)
	return a.workload(m, &template, replicas, owner)
}

// workload adds the replicas of a workload.
func (a *podAdder) workload(m metav1.ObjectMeta, template *corev1.PodTemplateSpec, replicas int32, owner string) error {
	if m.Name == "" {
		return errors.New("metadata.name is required")
	}
	if replicas < 0 {
		return fmt.Errorf("%s has %d replicas", m.Name, replicas)
	}
	for range replicas {
		if err := a.put(a.podOf(m, template, owner)); err != nil {
			return err
		}
	}
	return nil
}

// podOf is the next pod of a workload.
func (a *podAdder) podOf(m metav1.ObjectMeta, template *corev1.PodTemplateSpec, owner string) *corev1.Pod {
	namespace := namespaceOf(m)
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Namespace = namespace
	for n := 0; p.Name == "" || a.names[p.Namespace+"/"+p.Name]; n++ {
		p.Name = fmt.Sprintf("%s-added-%d", m.Name, n+a.added)
	}
	group := "apps/v1"
	if owner == "Job" {
		group = "batch/v1"
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: group, Kind: owner, Name: m.Name, UID: types.UID("added/" + namespace + "/" + m.Name), Controller: new(true)}}
	return p
}

func namespaceOf(m metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return m.Namespace
}

func (a *podAdder) pod(text []byte) error {
	var p corev1.Pod
	if err := readStrict(text, &p); err != nil {
		return err
	}
	if p.Name == "" && p.GenerateName != "" {
		p.Name = fmt.Sprintf("%sadded-%d", p.GenerateName, a.added)
	}
	if p.Name == "" {
		return errors.New("metadata.name is required")
	}
	p.Namespace = namespaceOf(p.ObjectMeta)
	return a.put(&p)
}

// put adds a pod that waits for a node, as the API server would complete it.
func (a *podAdder) put(p *corev1.Pod) error {
	key := p.Namespace + "/" + p.Name
	switch {
	case a.names[key]:
		return fmt.Errorf("pod %s exists already; give it another name", key)
	case len(p.Spec.Containers) == 0:
		return fmt.Errorf("pod %s has no container", key)
	case a.added == maxAdded:
		return fmt.Errorf("more than %d pods", maxAdded)
	}
	a.names[key] = true
	a.added++
	p.UID, p.CreationTimestamp, p.DeletionTimestamp = types.UID("added/"+key), metav1.NewTime(a.file.Taken), nil
	p.Spec.NodeName = ""
	keep(p)
	cluster.CompleteRequests(&p.Spec, a.defaults(p.Namespace))
	p.Status = corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: p.CreationTimestamp}},
	}
	a.file.Objects.Pods = append(a.file.Objects.Pods, *p)
	return nil
}

// defaults are the requests that LimitRanges of a namespace give to containers.
func (a *podAdder) defaults(namespace string) corev1.ResourceList {
	var ranges []*corev1.LimitRange
	for i := range a.file.Objects.LimitRanges {
		if r := &a.file.Objects.LimitRanges[i]; r.Namespace == namespace {
			ranges = append(ranges, r)
		}
	}
	return cluster.DefaultRequests(ranges...)
}

// statefulSet adds the pods of a StatefulSet with the claims that it makes for them.
func (a *podAdder) statefulSet(text []byte) error {
	var s appsv1.StatefulSet
	if err := readStrict(text, &s); err != nil {
		return err
	}
	if s.Name == "" {
		return errors.New("metadata.name is required")
	}
	for range one(s.Spec.Replicas) {
		p := a.podOf(s.ObjectMeta, &s.Spec.Template, "StatefulSet")
		for i := range s.Spec.VolumeClaimTemplates {
			t := &s.Spec.VolumeClaimTemplates[i]
			claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: t.Name + "-" + p.Name}, Spec: t.Spec}
			claim.UID = types.UID("added/" + claim.Namespace + "/" + claim.Name)
			keep(&claim)
			if claim.Spec.StorageClassName == nil {
				claim.Spec.StorageClassName = a.defaultClass()
			}
			claim.Status.Phase = corev1.ClaimPending
			a.file.Objects.VolumeClaims = append(a.file.Objects.VolumeClaims, claim)
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}})
		}
		if err := a.put(p); err != nil {
			return err
		}
	}
	return nil
}

func (a *podAdder) defaultClass() *string {
	for i := range a.file.Objects.StorageClasses {
		if c := &a.file.Objects.StorageClasses[i]; c.Annotations[annotationDefaultClass] == annotationTrue {
			return &c.Name
		}
	}
	return nil
}

// daemonSet adds a DaemonSet. New nodes have room for its pods.
func (a *podAdder) daemonSet(text []byte) error {
	var d appsv1.DaemonSet
	if err := readStrict(text, &d); err != nil {
		return err
	}
	if d.Name == "" {
		return errors.New("metadata.name is required")
	}
	d.Namespace = namespaceOf(d.ObjectMeta)
	d.UID = types.UID("added/" + d.Namespace + "/" + d.Name)
	keep(&d)
	a.daemons++
	a.file.Objects.DaemonSets = append(a.file.Objects.DaemonSets, d)
	a.file.Missing = append(a.file.Missing, Missing{
		What: "pods of DaemonSet " + d.Namespace + "/" + d.Name, Why: "they are not on nodes that exist",
		Then: "only nodes that a plan launches have room for them",
	})
	return nil
}
