package cluster

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// VolumeLookup finds the objects behind the volumes of a pod. Each method returns nil for what does
// not exist.
type VolumeLookup interface {
	Claim(namespace, name string) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
	Class(name string) *storagev1.StorageClass
}

// VolumeObjects is a VolumeLookup in maps.
type VolumeObjects struct {
	Claims  map[PodKey]*corev1.PersistentVolumeClaim // by namespace and name
	Volumes map[string]*corev1.PersistentVolume
	Classes map[string]*storagev1.StorageClass
}

// Claim returns a claim, or nil.
func (o VolumeObjects) Claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return o.Claims[PodKey{Namespace: namespace, Name: name}]
}

// Volume returns a volume, or nil.
func (o VolumeObjects) Volume(name string) *corev1.PersistentVolume { return o.Volumes[name] }

// Class returns a storage class, or nil.
func (o VolumeObjects) Class(name string) *storagev1.StorageClass { return o.Classes[name] }

// claimFacts is a claim a pod mounts, with what stands behind it: a volume if it is bound, else a class.
type claimFacts struct {
	name      string
	claim     *corev1.PersistentVolumeClaim // nil: does not exist
	volume    *corev1.PersistentVolume      // nil: not bound, or missing
	className string                        // of a claim that is not bound
	class     *storagev1.StorageClass       // nil: bound, or missing
}

func (c *claimFacts) bindCompleted() bool {
	_, completed := c.claim.Annotations["pv.kubernetes.io/bind-completed"]
	return completed
}

// resolve looks up the claims of a pod. The result is valid until the next call.
func (r *Reader) resolve(in input) []claimFacts {
	r.claims = r.claims[:0]
	if in.vols == nil || in.template {
		return nil
	}
	for i := range in.pod.Spec.Volumes {
		c := claimFacts{name: ClaimOf(in.pod, &in.pod.Spec.Volumes[i])}
		if c.name == "" {
			continue
		}
		if c.claim = in.vols.Claim(in.pod.Namespace, c.name); c.claim != nil {
			if bound := c.claim.Spec.VolumeName; bound != "" {
				c.volume = in.vols.Volume(bound)
			} else if c.className = className(c.claim); c.className != "" {
				c.class = in.vols.Class(c.className)
			}
		}
		r.claims = append(r.claims, c)
	}
	return r.claims
}

// ClaimOf is the name of the claim that a volume of a pod is; empty if it is something else.
func ClaimOf(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	default:
		return ""
	}
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if old, set := claim.Annotations[corev1.BetaStorageClassAnnotation]; set {
		return old
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

// volumes reads where the volumes of the pod can be, which slots they take, and what keeps the pod
// from being planned for (3.4 d to f, SC-38, SC-41, V15-59).
func (b *builder) volumes() {
	if len(b.in.claims) == 0 {
		return
	}
	zones := []reqs.Set{{}}
	apart := ""
	for i := range b.in.claims {
		c := &b.in.claims[i]
		b.checkClaim(c)
		if driver := c.driver(); driver != "" {
			b.shape.Volumes = append(b.shape.Volumes, Volume{Driver: driver, Claim: b.in.pod.Namespace + "/" + c.name})
		}
		places, anywhere := c.places(b.words)
		if anywhere {
			continue
		}
		if combined := combine(zones, places); len(combined) > 0 {
			zones = combined
		} else if apart == "" {
			apart = "claim " + c.name + " is in " + describe(places) + ", the others in " + describe(zones)
		}
	}
	if apart != "" {
		b.refuse(reason.VolumesApart, "spec.volumes", apart, "")
	}
	if !slices.ContainsFunc(zones, func(s reqs.Set) bool { return len(s) == 0 }) {
		b.shape.Zones = zones
	}
	slices.SortFunc(b.shape.Volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Claim, b.Claim))
	})
	b.shape.Volumes = slices.Compact(b.shape.Volumes)
}

// checkClaim makes the checks 3.4 d to f.
func (b *builder) checkClaim(c *claimFacts) {
	const at = "spec.volumes"
	name := b.in.pod.Namespace + "/" + c.name
	switch {
	case c.claim == nil:
		b.refuse(reason.ClaimMissing, at, name, "")
	case c.claim.DeletionTimestamp != nil:
		b.refuse(reason.ClaimUnusable, at, name, "it is being deleted")
	case c.claim.Status.Phase == corev1.ClaimLost:
		b.refuse(reason.ClaimUnusable, at, name, "its volume is lost")
	case c.claim.Spec.VolumeName != "":
		switch {
		case c.volume == nil || c.volume.DeletionTimestamp != nil:
			b.refuse(reason.VolumeMissing, at, name, "")
		case !c.bindCompleted():
			b.refuse(reason.ClaimUnusable, at, name, "its binding is not complete")
		}
	case c.className == "":
		b.refuse(reason.StorageClassMissing, at, name, "names no storage class")
	case c.class == nil:
		b.refuse(reason.StorageClassMissing, at, name, "its storage class "+c.className+" does not exist")
	case c.class.VolumeBindingMode == nil || *c.class.VolumeBindingMode == storagev1.VolumeBindingImmediate:
		b.refuse(reason.ClaimUnbound, at, name, "")
	default:
		b.checkClass(at, name, c.class)
	}
}

func (b *builder) checkClass(at, name string, class *storagev1.StorageClass) {
	if b.words.UnsupportedDrivers[class.Provisioner] {
		b.refuse(reason.VolumeUnsupported, at, name, "driver "+class.Provisioner)
	}
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			if b.words.UnsupportedTopology[e.Key] {
				b.refuse(reason.VolumeUnsupported, at, name, "topology key "+e.Key)
			}
		}
	}
}

// driver is the CSI driver whose slots the claim takes one of; empty if that is not known (SC-41).
func (c *claimFacts) driver() string {
	switch {
	case c.volume != nil:
		return driverOf(c.volume)
	case c.class != nil:
		if driver, inTree := csiDriver(c.class.Provisioner); inTree {
			return driver
		}
		return c.class.Provisioner
	default:
		return ""
	}
}

// driverOf is the CSI driver of a volume, also of one that a plugin compiled into Kubernetes made.
func driverOf(v *corev1.PersistentVolume) string {
	var driver string
	switch source := v.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		return source.CSI.Driver
	case source.AWSElasticBlockStore != nil:
		driver, _ = csiDriver("kubernetes.io/aws-ebs")
	case source.GCEPersistentDisk != nil:
		driver, _ = csiDriver("kubernetes.io/gce-pd")
	case source.AzureDisk != nil:
		driver, _ = csiDriver("kubernetes.io/azure-disk")
	case source.AzureFile != nil:
		driver, _ = csiDriver("kubernetes.io/azure-file")
	case source.Cinder != nil:
		driver, _ = csiDriver("kubernetes.io/cinder")
	case source.VsphereVolume != nil:
		driver, _ = csiDriver("kubernetes.io/vsphere-volume")
	case source.PortworxVolume != nil:
		driver, _ = csiDriver("kubernetes.io/portworx-volume")
	}
	return driver
}

// csiDriver is the driver that took over from a plugin that was part of Kubernetes. A plugin without
// a successor, such as kubernetes.io/no-provisioner, has no attachments to count.
func csiDriver(plugin string) (driver string, inTree bool) {
	name, inTree := strings.CutPrefix(plugin, "kubernetes.io/")
	switch name {
	case "aws-ebs":
		return "ebs.csi.aws.com", inTree
	case "gce-pd":
		return "pd.csi.storage.gke.io", inTree
	case "azure-disk":
		return "disk.csi.azure.com", inTree
	case "azure-file":
		return "file.csi.azure.com", inTree
	case "cinder":
		return "cinder.csi.openstack.org", inTree
	case "vsphere-volume":
		return "csi.vsphere.vmware.com", inTree
	case "portworx-volume":
		return "pxd.portworx.com", inTree
	default:
		return "", inTree
	}
}

// onNode reports whether a volume is part of one machine. Its hostname is then no preference: the machine
// may be deleted, and no other claim of that name can be created.
func onNode(v *corev1.PersistentVolume) bool { return v.Spec.Local != nil || v.Spec.HostPath != nil }

func volumeTerms(v *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return v.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// places lists where the claim can be, as alternatives in order.
func (c *claimFacts) places(words reqs.Vocabulary) (places []reqs.Set, anywhere bool) {
	var terms []corev1.NodeSelectorTerm
	switch {
	case c.volume != nil:
		terms = volumeTerms(c.volume)
	case c.class != nil:
		terms = classTerms(c.class)
	}
	for _, term := range terms {
		if len(term.MatchExpressions) == 0 {
			continue // matches nothing, or one node by name, of which there is no other
		}
		if c.volume != nil && onNode(c.volume) {
			term.MatchExpressions = slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(e corev1.NodeSelectorRequirement) bool {
				return words.Canonical(e.Key) == corev1.LabelHostname
			})
		}
		if set, faults := reqs.FromNodeSelectorTerm(term, words); len(faults) == 0 {
			places = append(places, set)
		}
	}
	return places, len(terms) == 0
}

func classTerms(class *storagev1.StorageClass) []corev1.NodeSelectorTerm {
	var terms []corev1.NodeSelectorTerm
	for _, t := range class.AllowedTopologies {
		var term corev1.NodeSelectorTerm
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values})
		}
		terms = append(terms, term)
	}
	return terms
}

// maxPlaces bounds the product of the alternatives of many volumes. Clouds have a handful of zones.
const maxPlaces = 64

// combine returns every pair of alternatives that can hold together, in order.
func combine(a, b []reqs.Set) []reqs.Set {
	var both []reqs.Set
	for _, x := range a {
		for _, y := range b {
			if _, conflict := x.Conflict(y); conflict {
				continue
			}
			one := x.Intersect(y)
			if !slices.ContainsFunc(both, one.Equal) && len(both) < maxPlaces {
				both = append(both, one)
			}
		}
	}
	return both
}

func describe(places []reqs.Set) string {
	const shown = 3
	var texts []string
	for _, s := range places[:min(len(places), shown)] {
		if len(s) == 0 {
			return "any place"
		}
		texts = append(texts, "["+s.String()+"]")
	}
	if len(texts) == 0 {
		return "no place at all"
	}
	return strings.Join(texts, " or ")
}
