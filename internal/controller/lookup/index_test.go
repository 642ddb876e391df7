package lookup

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The cache lists in any order; what is read of it is used by name.
func TestListedObjectsAreInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range ByName([]corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "1"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "2"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "1"}},
	}) {
		got = append(got, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String())
	}
	if want := []string{"a/1", "a/2", "b/1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
