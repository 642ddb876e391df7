package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// volumeObjects are claims, volumes and classes by name, all claims in namespace ns.
func volumeObjects(t *testing.T, claims, volumes, classes map[string]string) cluster.VolumeObjects {
	t.Helper()
	o := cluster.VolumeObjects{
		Claims:  map[cluster.PodKey]*corev1.PersistentVolumeClaim{},
		Volumes: map[string]*corev1.PersistentVolume{}, Classes: map[string]*storagev1.StorageClass{},
	}
	for name, text := range claims {
		o.Claims[cluster.PodKey{Namespace: "ns", Name: name}] = read[corev1.PersistentVolumeClaim](t, text)
	}
	for name, text := range volumes {
		o.Volumes[name] = read[corev1.PersistentVolume](t, text)
	}
	for name, text := range classes {
		o.Classes[name] = read[storagev1.StorageClass](t, text)
	}
	return o
}

// bound is a claim that is bound to the named volume.
func bound(volume string) string {
	return `{metadata: {annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: ` + volume + `}, status: {phase: Bound}}`
}

// zonal is an EBS volume in the given zones, each an alternative.
func zonal(zones ...string) string {
	text := `{spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [`
	for _, zone := range zones {
		text += `{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [` + zone + `]}]},`
	}
	return text + "]}}}}"
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	const (
		zone    = "topology.kubernetes.io/zone"
		waiting = `{provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}`
		two     = `[{name: x, persistentVolumeClaim: {claimName: a}}, {name: y, persistentVolumeClaim: {claimName: b}}]`
		one     = `[{name: x, persistentVolumeClaim: {claimName: a}}]`
	)
	ebs := func(claims ...string) []cluster.Volume {
		var list []cluster.Volume
		for _, c := range claims {
			list = append(list, cluster.Volume{Driver: "ebs.csi.aws.com", Claim: "ns/" + c})
		}
		return list
	}
	for name, tc := range map[string]struct {
		volumes                string
		claims, bound, classes map[string]string
		wantVolumes            []cluster.Volume
		wantZones, wantInvalid []string
	}{
		"SC-38 a bound claim is where its volume is, keys under their canonical name": {
			volumes: one, claims: map[string]string{"a": bound("v")}, bound: map[string]string{"v": zonal("z1")},
			wantVolumes: ebs("a"), wantZones: []string{zone + " In [z1]"},
		},
		"SC-38 the alternatives of several volumes are combined where they overlap": {
			volumes: two, claims: map[string]string{"a": bound("v"), "b": bound("w")},
			bound:       map[string]string{"v": zonal("z1", "z2", "z3"), "w": zonal("z3", "z2")},
			wantVolumes: ebs("a", "b"), wantZones: []string{zone + " In [z2]", zone + " In [z3]"},
		},
		"SC-38 volumes in different zones fail with a clear reason": {
			volumes: two, claims: map[string]string{"a": bound("v"), "b": bound("w")},
			bound:       map[string]string{"v": zonal("z1"), "w": zonal("z2")},
			wantVolumes: ebs("a", "b"), wantZones: []string{zone + " In [z1]"}, wantInvalid: []string{"VolumesApart spec.volumes"},
		},
		"SC-38 the hostname of a local volume is ignored, its zone is not": {
			volumes: one, claims: map[string]string{"a": bound("v")},
			bound: map[string]string{"v": `{spec: {local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [
				{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n-1]}, {key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}}}`},
			wantZones: []string{zone + " In [z1]"},
		},
		"SC-38 a local volume with nothing but a hostname can be anywhere": {
			volumes: one, claims: map[string]string{"a": bound("v")},
			bound: map[string]string{"v": `{spec: {hostPath: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [
				{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n-1]}]}]}}}}`},
		},
		"SC-38 an unbound claim goes where its class allows": {
			volumes: one, claims: map[string]string{"a": `{spec: {storageClassName: c}}`},
			classes: map[string]string{"c": `{provisioner: kubernetes.io/aws-ebs, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [
				{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [z1, z2]}]}]}`},
			wantVolumes: ebs("a"), wantZones: []string{zone + " In [z1 z2]"},
		},
		"SC-41 a shared claim counts once, an in-tree EBS volume for the CSI driver, others not at all": {
			volumes:     `[{name: x, persistentVolumeClaim: {claimName: a}}, {name: y, persistentVolumeClaim: {claimName: a}}, {name: z, persistentVolumeClaim: {claimName: b}}, {name: e, emptyDir: {}}]`,
			claims:      map[string]string{"a": bound("v"), "b": bound("w")},
			bound:       map[string]string{"v": `{spec: {awsElasticBlockStore: {volumeID: x}}}`, "w": `{spec: {nfs: {server: x, path: /}}}`},
			wantVolumes: ebs("a"),
		},
		"3.4 d: the claim of an ephemeral volume is named after pod and volume": {
			volumes: `[{name: scratch, ephemeral: {}}]`, claims: map[string]string{"web-1-scratch": `{spec: {storageClassName: c}}`},
			classes: map[string]string{"c": waiting}, wantVolumes: ebs("web-1-scratch"),
		},
		"3.4 d: a claim that does not exist, V15-59 it is not counted": {volumes: one, wantInvalid: []string{"ClaimMissing spec.volumes"}},
		"3.4 d: a claim that is being deleted": {
			volumes: one, claims: map[string]string{"a": `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}}`},
			wantInvalid: []string{"ClaimUnusable spec.volumes"},
		},
		"3.4 d: a lost claim": {
			volumes: one, claims: map[string]string{"a": `{status: {phase: Lost}}`}, wantInvalid: []string{"ClaimUnusable spec.volumes"},
		},
		"3.4 e: V15-59 the volume is missing": {
			volumes: one, claims: map[string]string{"a": bound("v")}, wantInvalid: []string{"VolumeMissing spec.volumes"},
		},
		"3.4 e: binding is not complete": {
			volumes: one, claims: map[string]string{"a": `{spec: {volumeName: v}}`}, bound: map[string]string{"v": `{spec: {csi: {driver: d, volumeHandle: x}}}`},
			wantVolumes: []cluster.Volume{{Driver: "d", Claim: "ns/a"}}, wantInvalid: []string{"ClaimUnusable spec.volumes"},
		},
		"3.4 f: no storage class": {
			volumes: one, claims: map[string]string{"a": `{}`}, wantInvalid: []string{"StorageClassMissing spec.volumes"},
		},
		"3.4 f: the class is missing": {
			volumes: one, claims: map[string]string{"a": `{spec: {storageClassName: c}}`}, wantInvalid: []string{"StorageClassMissing spec.volumes"},
		},
		"3.4 f: the class binds at once, which is also the default": {
			volumes: one, claims: map[string]string{"a": `{spec: {storageClassName: c}}`}, classes: map[string]string{"c": `{provisioner: ebs.csi.aws.com}`},
			wantVolumes: ebs("a"), wantInvalid: []string{"ClaimUnbound spec.volumes"},
		},
		"FM I03, 3.4 f: driver and topology key that no node supports": {
			volumes: one, claims: map[string]string{"a": `{spec: {storageClassName: c}}`},
			classes: map[string]string{"c": `{provisioner: odd, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [
				{matchLabelExpressions: [{key: rack, values: [r1]}]}]}`},
			wantVolumes: []cluster.Volume{{Driver: "odd", Claim: "ns/a"}}, wantZones: []string{"rack In [r1]"},
			wantInvalid: []string{"VolumeUnsupported spec.volumes", "VolumeUnsupported spec.volumes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := cluster.NewReader(words().With(reqs.Vocabulary{UnsupportedDrivers: map[string]bool{"odd": true}, UnsupportedTopology: map[string]bool{"rack": true}}), cluster.ReaderOptions{})
			p := podYAML(t, "{volumes: "+tc.volumes+"}")
			vols := volumeObjects(t, tc.claims, tc.bound, tc.classes)
			s := r.Pod(p, vols).Shape
			diff(t, "Volumes", s.Volumes, tc.wantVolumes)
			diff(t, "Zones", sets(s.Zones), tc.wantZones)
			diff(t, "Invalid", codes(s), tc.wantInvalid)
			if unseen := r.Pod(p, nil).Shape; len(unseen.Invalid)+len(unseen.Volumes)+len(unseen.Zones) > 0 {
				t.Errorf("without a lookup volumes are looked at: %s", unseen.Key)
			}
			if r.Pod(p, vols).Shape != s {
				t.Error("read again, the pod has another shape")
			}
		})
	}
}

// FM I03, 3.4 f: volumes of EKS Auto Mode cannot be attached to nodes that are launched here.
func TestFM_I03_VolumesOfEKSAutoMode(t *testing.T) {
	t.Parallel()
	r := cluster.NewReader(awsv1.Vocabulary(), cluster.ReaderOptions{})
	p := podYAML(t, "{volumes: [{name: v, persistentVolumeClaim: {claimName: a}}]}")
	vols := volumeObjects(t, map[string]string{"a": `{spec: {storageClassName: c}}`}, nil,
		map[string]string{"c": `{provisioner: ebs.csi.eks.amazonaws.com, volumeBindingMode: WaitForFirstConsumer}`})
	diff(t, "Invalid", codes(r.Pod(p, vols).Shape), []string{"VolumeUnsupported spec.volumes"})
}
