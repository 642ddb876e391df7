package snapshot

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Format is what a File says of itself.
const Format = "dovetail.sh/snapshot/v1"

// File is a cluster at one instant.
type File struct {
	Format     string      `json:"format"` // Format
	Name       string      `json:"name"`
	Taken      time.Time   `json:"taken"`                // when; decisions about it are made at this time
	Tool       string      `json:"tool"`                 // that took it
	Controller string      `json:"controller,omitempty"` // that manages the nodes, as far as known: dovetail, karpenter, cluster-autoscaler
	Anonymized bool        `json:"anonymized,omitempty"` // names were replaced
	Settings   Settings    `json:"settings"`
	Catalogues []Catalogue `json:"catalogues"`
	Objects    Objects     `json:"objects"`
	Missing    []Missing   `json:"missing,omitempty"`
	Decided    *Decided    `json:"decided,omitempty"` // what was decided for it: then it is a record, which internal/replay decides again
}

// Decided is a decision with who made it.
type Decided struct {
	Tool    string          `json:"tool"`
	Changes inspect.Changes `json:"changes"`
}

// Settings are those that decisions depend on.
type Settings struct {
	Classes       []metav1.GroupKind                `json:"classes"` // of node classes; NodePools of others are left alone
	Strict        bool                              `json:"strict,omitempty"`
	CostManaged   bool                              `json:"costManaged,omitempty"` // gate PodDeletionCostManagement
	Devices       bool                              `json:"devices,omitempty"`     // ResourceClaims are planned for
	Overlays      bool                              `json:"overlays,omitempty"`    // gate NodeOverlay
	Buffers       bool                              `json:"buffers,omitempty"`     // gate CapacityBuffer
	DefaultSpread []corev1.TopologySpreadConstraint `json:"defaultSpread,omitempty"`
	Policy        solve.Policy                      `json:"policy"`
	Tuning        disrupt.Tuning                    `json:"tuning"`
	Methods       disrupt.Methods                   `json:"methods"`
}

// Catalogue is the instance types that some NodePools could launch, without NodeOverlays.
type Catalogue struct {
	NodePools     []string       `json:"nodePools"`
	InstanceTypes []InstanceType `json:"instanceTypes"`
	Problem       string         `json:"problem,omitempty"` // why none are known
}

// InstanceType is one kind of machine.
type InstanceType struct {
	Name         string              `json:"name"`
	Labels       map[string][]string `json:"labels"` // possible values; none: a node of it does not have the label
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     corev1.ResourceList `json:"overhead,omitempty"`
	VolumeLimits map[string]int      `json:"volumeLimits,omitempty"` // by CSI driver
	Unsuited     string              `json:"unsuited,omitempty"`     // why the node class can never launch it
	Offerings    []Offering          `json:"offerings"`
	Devices      []Devices           `json:"devices,omitempty"`
}

// Devices is what one driver of dynamic resource allocation is expected to publish for a node.
type Devices struct {
	Driver   string                  `json:"driver"`
	Devices  []resourcev1.Device     `json:"devices"`
	Counters []resourcev1.CounterSet `json:"counters,omitempty"`
}

// Offering is one way to launch an instance type.
type Offering struct {
	Zone         string              `json:"zone"`
	CapacityType string              `json:"capacityType"`
	Price        float64             `json:"price"` // USD an hour; 0: not known
	Risk         float64             `json:"risk,omitempty"`
	Available    bool                `json:"available"`
	Out          bool                `json:"out,omitempty"` // launches found no capacity lately
	Reservation  string              `json:"reservation,omitempty"`
	Remaining    int                 `json:"remaining,omitempty"`
	Takers       []string            `json:"takers,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Capacity     corev1.ResourceList `json:"capacity,omitempty"` // where it differs from the type's, with overhead
	Overhead     corev1.ResourceList `json:"overhead,omitempty"`
}

// Objects are those that decisions look at, each kind in order of namespace and name.
type Objects struct {
	NodePools       []karpv1.NodePool                   `json:"nodePools,omitempty"`
	NodeClaims      []karpv1.NodeClaim                  `json:"nodeClaims,omitempty"`
	NodeOverlays    []v1alpha1.NodeOverlay              `json:"nodeOverlays,omitempty"`
	CapacityBuffers []autoscalingv1beta1.CapacityBuffer `json:"capacityBuffers,omitempty"`
	VirtualPods     []corev1.Pod                        `json:"virtualPods,omitempty"` // that CapacityBuffers keep room for

	Nodes          []corev1.Node                  `json:"nodes,omitempty"`
	Pods           []corev1.Pod                   `json:"pods,omitempty"`
	Namespaces     []corev1.Namespace             `json:"namespaces,omitempty"`
	VolumeClaims   []corev1.PersistentVolumeClaim `json:"persistentVolumeClaims,omitempty"`
	Volumes        []corev1.PersistentVolume      `json:"persistentVolumes,omitempty"`
	StorageClasses []storagev1.StorageClass       `json:"storageClasses,omitempty"`
	CSINodes       []storagev1.CSINode            `json:"csiNodes,omitempty"`
	Budgets        []policyv1.PodDisruptionBudget `json:"podDisruptionBudgets,omitempty"`
	DaemonSets     []appsv1.DaemonSet             `json:"daemonSets,omitempty"`
	ReplicaSets    []appsv1.ReplicaSet            `json:"replicaSets,omitempty"` // these and the next three: with default spread constraints only
	StatefulSets   []appsv1.StatefulSet           `json:"statefulSets,omitempty"`
	Controllers    []corev1.ReplicationController `json:"replicationControllers,omitempty"`
	Services       []corev1.Service               `json:"services,omitempty"`
	LimitRanges    []corev1.LimitRange            `json:"limitRanges,omitempty"`
	ResourceClaims []resourcev1.ResourceClaim     `json:"resourceClaims,omitempty"`
	ResourceSlices []resourcev1.ResourceSlice     `json:"resourceSlices,omitempty"`
	DeviceClasses  []resourcev1.DeviceClass       `json:"deviceClasses,omitempty"`
}

// Missing is what could not be read.
type Missing struct {
	What string `json:"what"` // resource, such as persistentvolumes
	Why  string `json:"why"`
	Then string `json:"then"` // what the response lacks because of it, and the next step
}
