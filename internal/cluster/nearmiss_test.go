package cluster_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// The fields a shape is found by must be all the fields it is built from. So the fields of a pod,
// and of the objects behind its volumes, are changed one at a time, and a Reader that knows the pod as it
// was must read the changed one as a Reader does that knows nothing.
func TestEveryFieldThatMattersIsLookedAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		p, vols, namespaces := s.pod("pod-1"), s.volumes(), s.namespaces()
		mounts := s.chance(30) && vols.Claims[cluster.PodKey{Namespace: "ns", Name: "a"}] != nil
		if mounts {
			source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}
			p.Namespace, p.Spec.Volumes = "ns", append(p.Spec.Volumes, corev1.Volume{Name: "x", VolumeSource: source})
		}
		opts := cluster.ReaderOptions{
			KeepLabel:     func(key string) bool { return key != "team" },
			DefaultSpread: []corev1.TopologySpreadConstraint{{TopologyKey: "k", MaxSkew: 1}},
			SelectorOf: func(p *corev1.Pod) cluster.Selector {
				selector, err := cluster.NewSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"team": p.Labels["team"]}})
				if err != nil {
					return cluster.Selector{}
				}
				return selector
			},
		}
		warm := newReader(opts)
		warm.SetNamespaces(namespaces)
		try := func() {
			fresh := newReader(opts)
			fresh.SetNamespaces(namespaces)
			template := &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
			if want, got := fresh.Pod(p, vols).Shape.Key, warm.Pod(p, vols).Shape.Key; got != want {
				t.Fatalf("pod differs (-fresh +warm):\n%s", cmp.Diff(want, got))
			}
			if want, got := fresh.Shape(p.Namespace, template, nil).Key, warm.Shape(p.Namespace, template, nil).Key; got != want {
				t.Fatalf("template differs (-fresh +warm):\n%s", cmp.Diff(want, got))
			}
		}
		warm.Pod(p, vols)
		const stride = 20 // a pod has thousands of fields; each run looks at some of them
		turn := s.number(0, stride-1)
		sometimes := func() {
			if turn++; turn%stride == 0 {
				try()
			}
		}
		for _, part := range []any{&p.Spec, &p.Status, &p.Labels, &p.Namespace} {
			changeEach(reflect.ValueOf(part).Elem(), sometimes)
		}
		if claim := vols.Claims[cluster.PodKey{Namespace: "ns", Name: "a"}]; mounts {
			for _, part := range []any{&claim.ObjectMeta, &claim.Spec.VolumeName, &claim.Spec.StorageClassName, &claim.Status.Phase, vols.Volumes["pv"], vols.Classes["c"]} {
				changeEach(reflect.ValueOf(part).Elem(), try)
			}
		}
	})
}

// changeEach changes one value inside v at a time, calls try and puts the value back.
func changeEach(v reflect.Value, try func()) {
	with := func(changed reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(changed)
		try()
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			with(reflect.New(v.Type().Elem()))
			return
		}
		with(reflect.Zero(v.Type()))
		changeEach(v.Elem(), try)
	case reflect.Struct:
		switch v.Interface().(type) {
		case resource.Quantity:
			with(reflect.ValueOf(resource.MustParse("3")))
			return
		case metav1.Time, metav1.ManagedFieldsEntry:
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				changeEach(field, try)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			changeEach(v.Index(i), try)
		}
		if v.Len() > 0 {
			with(v.Slice(0, v.Len()-1))
			with(reflect.Append(v.Slice3(0, v.Len(), v.Len()), v.Index(0)))
		} else {
			with(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
	case reflect.Map:
		changeMap(v, try)
	case reflect.String:
		for _, text := range []string{"", "app", "b", "z", "In", "Immediate", "ScheduleAnyway"} {
			with(reflect.ValueOf(text).Convert(v.Type()))
		}
	case reflect.Int32, reflect.Int64:
		with(reflect.ValueOf(v.Int() + 1).Convert(v.Type()))
	case reflect.Bool:
		with(reflect.ValueOf(!v.Bool()))
	default:
	}
}

// changeMap removes each entry in turn, then changes its value; entries of texts and quantities only.
func changeMap(v reflect.Value, try func()) {
	switch m := v.Interface().(type) {
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(m)) {
			old := m[key]
			delete(m, key)
			try()
			for _, value := range []string{"", "z"} {
				m[key] = value
				try()
			}
			m[key] = old
		}
	case corev1.ResourceList:
		for _, key := range slices.Sorted(maps.Keys(m)) {
			old := m[key]
			delete(m, key)
			try()
			m[key] = resource.MustParse("3")
			try()
			m[key] = old
		}
	}
}
