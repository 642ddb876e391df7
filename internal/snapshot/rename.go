package snapshot

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

type (
	pod         = corev1.Pod
	claimSource = corev1.PersistentVolumeClaimVolumeSource

	ownerReference = metav1.OwnerReference
	csiNodeDriver  = storagev1.CSINodeDriver
)

const selectedNode = "volume.kubernetes.io/selected-node"

// renamer replaces names in objects. Every text is taken for a name, unless it is known not to be one: a field that is new
// in a version of Kubernetes is renamed.
type renamer struct {
	words  reqs.Vocabulary
	rename func(name string) string
	pods   map[uint32][]cluster.PodKey // by the hash of their name before
}

// walk renames all texts of a value. field is the name of the field that it is.
func (r *renamer) walk(v reflect.Value, field string) {
	t := v.Type()
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		if !v.IsNil() {
			r.walk(v.Elem(), field)
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			r.walk(v.Index(i), field)
		}
	case kind == reflect.Map:
		if t == reflect.TypeFor[map[string]string]() && !v.IsNil() {
			v.Set(reflect.ValueOf(r.labels(v.Interface().(map[string]string))))
		}
	case kind == reflect.Struct:
		r.structure(v)
	case kind == reflect.String:
		switch {
		case t == reflect.TypeFor[types.UID]() || t == reflect.TypeFor[string]() && !isWord(field):
			v.SetString(r.name(v.String()))
		case field == "TopologyKey", field == "MatchLabelKeys", field == "MismatchLabelKeys", field == "TopologyKeys", field == "Driver", field == "Provisioner":
			v.SetString(r.key(v.String()))
		case field == "Message":
			v.SetString("")
		}
	}
}

// isWord reports whether a field has no name: words of an API, keys of labels, which have rules of their own, and texts
// for people.
func isWord(field string) bool {
	switch field {
	case "APIVersion", "Group", "Kind", "Type", "Reason", "Message", "Schedule", "Request", "TopologyKey", "MatchLabelKeys", "MismatchLabelKeys", "TopologyKeys", "Driver", "Provisioner":
		return true
	}
	return false
}

// structure renames the fields of a struct. Some types have rules of their own.
func (r *renamer) structure(v reflect.Value) {
	t := v.Type()
	switch t.PkgPath() {
	case "k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/util/intstr", "time":
		return
	case "k8s.io/api/resource/v1":
		r.device(v)
		return
	}
	if key := v.FieldByName("Key"); key.IsValid() && key.Kind() == reflect.String {
		r.keyed(v, key)
		return
	}
	if owner, is := reflect.TypeAssert[*ownerReference](v.Addr()); is {
		if !r.publicGroup(owner.APIVersion) {
			owner.APIVersion, owner.Kind = r.name(owner.APIVersion), r.name(owner.Kind)
		}
		owner.Name, owner.UID = r.name(owner.Name), types.UID(r.name(string(owner.UID)))
		return
	}
	if driver, is := reflect.TypeAssert[*csiNodeDriver](v.Addr()); is {
		driver.Name = r.key(driver.Name)
		driver.NodeID = r.name(driver.NodeID)
		r.walk(reflect.ValueOf(&driver.TopologyKeys).Elem(), "TopologyKeys")
		return
	}
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() {
			r.walk(v.Field(i), field.Name)
		}
	}
}

// keyed renames a requirement, a taint or a toleration: what a value means depends on the key.
func (r *renamer) keyed(v, key reflect.Value) {
	label := key.String()
	if value := v.FieldByName("Value"); value.IsValid() && value.Kind() == reflect.String {
		value.SetString(r.value(label, value.String()))
	}
	if values := v.FieldByName("Values"); values.IsValid() {
		for i := range values.Len() {
			values.Index(i).SetString(r.value(label, values.Index(i).String()))
		}
	}
	key.SetString(r.key(label))
}

// device renames what of dynamic resource allocation names objects of the cluster. Drivers, devices and their attributes are
// products.
func (r *renamer) device(v reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		field := v.Field(i)
		switch name := t.Field(i).Name; name {
		case "ObjectMeta":
			r.walk(field, name)
		case "NodeName", "Pool", "DeviceClassName", "UID", "NodeSelector", "Tolerations", "Taints", "Taint":
			if field.Kind() == reflect.Struct && field.Type().PkgPath() == "k8s.io/api/resource/v1" { // ResourcePool
				r.walk(field.FieldByName("Name"), "Name")
				continue
			}
			r.walk(field, name)
		case "ReservedFor":
			for j := range field.Len() {
				r.walk(field.Index(j).FieldByName("Name"), "Name")
				r.walk(field.Index(j).FieldByName("UID"), "UID")
			}
		default:
			r.inside(field)
		}
	}
}

// inside looks for names further inside a device.
func (r *renamer) inside(v reflect.Value) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		if !v.IsNil() {
			r.inside(v.Elem())
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			r.inside(v.Index(i))
		}
	case kind == reflect.Struct:
		if v.Type().PkgPath() == "k8s.io/api/resource/v1" {
			r.device(v)
		}
	}
}

var keepsMeaning = regexp.MustCompile(`^([0-9]{1,9}|true|false|\*|0\.0\.0\.0|127\.0\.0\.1|::|default-scheduler|system-(node|cluster)-critical)$`)

// name replaces a name. Numbers and words that have a meaning by themselves stay.
func (r *renamer) name(name string) string {
	if name == "" || keepsMeaning.MatchString(name) {
		return name
	}
	return r.rename(name)
}

func (r *renamer) all(names []string) {
	for i := range names {
		names[i] = r.name(names[i])
	}
}

// labels renames labels, selectors and annotations.
func (r *renamer) labels(all map[string]string) map[string]string {
	if all == nil {
		return nil
	}
	out := make(map[string]string, len(all))
	// any order: each is renamed by itself
	for key, value := range all {
		out[r.key(key)] = r.value(key, value)
	}
	return out
}

// key replaces the key of a label, or the name of a driver, unless it is one that everybody knows.
func (r *renamer) key(key string) string {
	domain := domainOf(key)
	switch {
	case key == "" || r.words.WellKnownKeys[key] || slices.Contains(commonKeys(), key):
		return key
	case domain == "node-restriction.kubernetes.io" || domain == "node-role.kubernetes.io" && key != labelControlPlane:
		return domain + "/" + r.name(strings.TrimPrefix(key, domain+"/"))
	case domain == key && strings.Contains(key, ".") && r.publicDomain(key): // a driver
		return key
	case domain != key && r.publicDomain(domain):
		return key
	}
	return r.name(key)
}

// value replaces the value of a label, unless its key has the same few values everywhere.
func (r *renamer) value(key, value string) string {
	canonical := r.words.Canonical(key)
	if canonical == karpv1.LabelNodePool || r.words.NameKeys[canonical] {
		return r.name(value)
	}
	domain := domainOf(key)
	if r.words.WellKnownKeys[canonical] || domain == karpv1.Group || domain == karpv1.OwnGroup || r.words.PublicKeys[key] || slices.Contains(publicValues(), key) {
		return value
	}
	return r.name(value)
}

// domainOf is the part of a key before the slash, or all of it.
func domainOf(key string) string {
	domain, _, _ := strings.Cut(key, "/")
	return domain
}

// publicDomain reports whether the keys below a domain are the same in all clusters.
func (r *renamer) publicDomain(domain string) bool {
	for _, known := range slices.Concat([]string{"kubernetes.io", "k8s.io", "karpenter.sh", karpv1.OwnGroup, "nvidia.com", "amd.com", "intel.com"}, r.words.PublicDomains) {
		if domain == known || strings.HasSuffix(domain, "."+known) {
			return true
		}
	}
	return false
}

// publicGroup reports whether an API is one of Kubernetes.
func (r *renamer) publicGroup(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	return !grouped || !strings.Contains(group, ".") || r.publicDomain(group)
}

// commonKeys are keys without a domain that controllers of Kubernetes set.
func commonKeys() []string {
	return []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "job-name", "controller-uid", "metadata.name"}
}

// publicValues are keys whose values are the same in all clusters, beside those of the cloud.
func publicValues() []string {
	return []string{
		"node.kubernetes.io/lifecycle", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.PodDeletionCost, "pv.kubernetes.io/bind-completed", annotationDefaultClass, annotationSafeToEvict, annotationNoScaleDown,
	}
}
