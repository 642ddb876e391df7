package uninstall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
)

// Nodes says what happens to nodes that are still there.
type Nodes string

// What uninstall does with nodes. The names are values of the chart.
const (
	// Keep lets them run with their finalizers, for the next installation to adopt.
	Keep Nodes = "Keep"
	// Delete deletes all NodePools first, and waits until the controller has drained and terminated their nodes.
	Delete Nodes = "Delete"
	// Release lets them run without finalizers: no controller manages them, and deleting objects does not terminate instances.
	Release Nodes = "Release"
)

// Choices are the values of Nodes.
func Choices() []Nodes { return []Nodes{Keep, Delete, Release} }

// Facts are what is decided about.
type Facts struct {
	Nodes   Nodes
	Kind    driver.Class // of Classes
	Classes []client.Object
	Claims  []karpv1.NodeClaim
	Objects []corev1.Node
}

// Plan names what is done, by name.
type Plan struct {
	Clean   []string // classes whose leavings in the cloud are deleted, and whose finalizer is removed after that
	Strip   []string // classes that only lose their finalizer: running instances use what was made for them
	Claims  []string // NodeClaims that lose their finalizer
	Nodes   []string // Nodes that do
	Remains []string // what stays and why, a sentence each
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Clean)+len(p.Strip)+len(p.Claims)+len(p.Nodes) == 0 }

// Decide decides what is done before an uninstallation.
func Decide(f Facts) Plan {
	var p Plan
	label := karpv1.NodeClassReference{Group: f.Kind.Group, Kind: f.Kind.Kind}.LabelKey()
	users, ours := map[string][]string{}, map[string]bool{}
	for i := range f.Claims {
		c := &f.Claims[i]
		class, is := classOf(c, f.Kind)
		if !is {
			continue
		}
		users[class] = append(users[class], c.Name)
		ours[c.Status.ProviderID] = true
		if f.Nodes == Release && controllerutil.ContainsFinalizer(c, karpv1.FinalizerTermination) {
			p.Claims = append(p.Claims, c.Name)
		}
	}
	for i := range f.Objects {
		n := &f.Objects[i]
		managed := n.Labels[label] != "" || n.Spec.ProviderID != "" && ours[n.Spec.ProviderID]
		if f.Nodes == Release && managed && controllerutil.ContainsFinalizer(n, karpv1.FinalizerTermination) {
			p.Nodes = append(p.Nodes, n.Name)
		}
	}
	for _, class := range f.Classes {
		used := users[class.GetName()]
		switch {
		case !controllerutil.ContainsFinalizer(class, f.Kind.Finalizer):
		case len(used) == 0:
			p.Clean = append(p.Clean, class.GetName())
		case f.Nodes == Release:
			p.Strip = append(p.Strip, class.GetName())
		default:
			p.Remains = append(p.Remains, fmt.Sprintf("%s %s keeps its finalizer: it is used by %s; their instances run on, and deleting any of them hangs until a controller is installed again",
				f.Kind.Kind, class.GetName(), listClaims(used)))
		}
	}
	for _, list := range [][]string{p.Clean, p.Strip, p.Claims, p.Nodes, p.Remains} {
		slices.Sort(list)
	}
	return p
}

// classOf is the class of a claim, if it is of that kind.
func classOf(c *karpv1.NodeClaim, kind driver.Class) (name string, is bool) {
	effective, _ := c.Effective(nil, false)
	ref := effective.Spec.NodeClassRef
	return ref.Name, ref.Group == kind.Group && ref.Kind == kind.Kind
}

// listClaims lists claims, a few of them by name.
func listClaims(claims []string) string {
	const most = 5
	slices.SortFunc(claims, cmp.Compare[string])
	text := "NodeClaims " + strings.Join(claims[:min(len(claims), most)], ", ")
	if more := len(claims) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
