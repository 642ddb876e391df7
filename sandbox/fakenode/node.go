package fakenode

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	zoneIDLabel    = "topology.k8s.aws/zone-id"
	ebsDriver      = "ebs.csi.aws.com"
	ebsZoneLabel   = "topology.ebs.csi.aws.com/zone"
	kubeletVersion = "v1.37.1"
)

func providerID(i Instance) string { return "aws:///" + i.Zone + "/" + i.ID }

func instanceID(providerID string) (string, bool) {
	rest, ok := strings.CutPrefix(providerID, "aws:///")
	_, id, cut := strings.Cut(rest, "/")
	return id, ok && cut && id != ""
}

func zoneOf(providerID string) string {
	zone, _, _ := strings.Cut(strings.TrimPrefix(providerID, "aws:///"), "/")
	return zone
}

func goArch(architecture string) string {
	switch architecture {
	case "x86_64", "i386", "":
		return "amd64"
	}
	return strings.TrimSuffix(architecture, "_mac")
}

func osOf(c Config) string {
	if c.Family == Windows {
		return "windows"
	}
	return "linux"
}

// nodeLabels are those of the user data, and those a kubelet and its neighbours give by themselves,
// which win.
func nodeLabels(i Instance, c Config) map[string]string {
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	arch := goArch(i.Architecture)
	for key, value := range map[string]string{
		corev1.LabelHostname:   i.PrivateDNS,
		corev1.LabelArchStable: arch, "beta.kubernetes.io/arch": arch,
		corev1.LabelOSStable: osOf(c), "beta.kubernetes.io/os": osOf(c),
		corev1.LabelInstanceTypeStable: i.Type, corev1.LabelInstanceType: i.Type,
		corev1.LabelTopologyZone: i.Zone, corev1.LabelFailureDomainBetaZone: i.Zone,
		corev1.LabelTopologyRegion: i.Region, corev1.LabelFailureDomainBetaRegion: i.Region,
		zoneIDLabel: i.ZoneID, ebsZoneLabel: i.Zone,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	return labels
}

func nodeTaints(c Config, f Fault) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(c.Taints), func(t corev1.Taint) bool {
		return f.NoUnregisteredTaint && t.Key == unregisteredTaint
	})
}

// nodeResources are the capacity and the allocatable that a node reports.
func (o Options) nodeResources(f facts) (capacity, allocatable corev1.ResourceList) {
	loss := o.MemoryLoss + f.fault.MemoryLoss
	if f.static {
		loss = f.fault.MemoryLoss
	}
	machine := f.instance.withStorage(f.config)
	capacity = Capacity(machine, f.config, loss)
	allocatable = Allocatable(machine, capacity, f.config)
	maps.Copy(capacity, f.fault.Devices)
	maps.Copy(allocatable, f.fault.Devices)
	for _, name := range f.fault.Without {
		delete(capacity, name)
		delete(allocatable, name)
	}
	for _, name := range f.fault.Zero {
		capacity[name], allocatable[name] = resource.Quantity{Format: resource.DecimalSI}, resource.Quantity{Format: resource.DecimalSI}
	}
	return capacity, allocatable
}

// stableUUID derives the same identifier from the same words, so that a node keeps its own.
func stableUUID(words ...string) string {
	h := sha256.Sum256([]byte(strings.Join(words, "/")))
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80 // version and variant of a random one
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func nodeInfo(f facts) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID: strings.ReplaceAll(stableUUID("machine", f.instance.ID), "-", ""), SystemUUID: stableUUID("system", f.instance.ID),
		BootID:        stableUUID("boot", f.instance.ID, f.instance.Running.UTC().String(), f.instance.Rebooted.UTC().String()),
		KernelVersion: "6.12.0-simulated", OSImage: "Dovetail sandbox " + f.config.Family,
		ContainerRuntimeVersion: "containerd://2.0.0-simulated", KubeletVersion: kubeletVersion,
		OperatingSystem: osOf(f.config), Architecture: goArch(f.instance.Architecture),
	}
}

// faultReason is that of conditions which are there only because a fault says so.
const faultReason = "SandboxFault"

// nodeConditions that a node reports: those of every kubelet, then those of the fault.
func nodeConditions(f facts, ready bool) []corev1.NodeCondition {
	now := metav1.NewTime(f.wall)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		if wrong, there := f.fault.Conditions[kind]; there {
			status, reason, message = wrong, faultReason, "a fault of the sandbox"
		}
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	r := condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	if !ready {
		r = condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready: cni plugin not initialized")
	}
	list := []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		r,
	}
	for _, kind := range slices.Sorted(maps.Keys(f.fault.Conditions)) {
		if !slices.ContainsFunc(list, func(c corev1.NodeCondition) bool { return c.Type == kind }) {
			list = append(list, condition(kind, "", "", ""))
		}
	}
	return list
}

// reportedConditions are the conditions that a kubelet writes on its Node: its own, but for a Ready that it is to leave alone.
func reportedConditions(f facts, n *corev1.Node, ready bool) []corev1.NodeCondition {
	list := nodeConditions(f, ready)
	if leaves, _ := leavesReady(n, f.wall); !leaves {
		return list
	}
	isReady := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
	if at := slices.IndexFunc(n.Status.Conditions, isReady); at >= 0 {
		list[slices.IndexFunc(list, isReady)] = n.Status.Conditions[at]
	}
	return list
}

// conditionsPatch is what changes on a Node, empty if all is so already. Conditions that stay as they
// are keep the time of their last transition, which repair goes by.
func conditionsPatch(have, want []corev1.NodeCondition) []any {
	find := func(list []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
		for i := range list {
			if list[i].Type == kind {
				return &list[i]
			}
		}
		return nil
	}
	var list []any
	for _, c := range want {
		if old := find(have, c.Type); old == nil || old.Status != c.Status {
			list = append(list, c)
		}
	}
	for _, c := range have {
		if c.Reason == faultReason && find(want, c.Type) == nil {
			list = append(list, map[string]any{"$patch": "delete", "type": c.Type})
		}
	}
	return list
}

func (o Options) newNode(f facts) *corev1.Node {
	capacity, allocatable := o.nodeResources(f)
	i := f.instance
	id := providerID(i)
	if f.fault.ProviderIDLate > 0 && !f.ownsNode() {
		id = ""
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: i.PrivateDNS, Labels: nodeLabels(i, f.config),
			Annotations: map[string]string{SimulatedAnnotation: i.ID, "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		// The admission of the API server adds the taint not-ready.
		Spec: corev1.NodeSpec{ProviderID: id, Taints: nodeTaints(f.config, f.fault)},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable, NodeInfo: nodeInfo(f),
			Conditions: nodeConditions(f, false), DaemonEndpoints: o.daemonEndpoints(),
			Addresses: o.nodeAddresses(i),
		},
	}
}

// nodeAddresses are those of the emulated network, and where the API server finds the kubelet: see
// Options.KubeletPort.
func (o Options) nodeAddresses(i Instance) []corev1.NodeAddress {
	list := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: i.PrivateIP},
		{Type: corev1.NodeInternalDNS, Address: i.PrivateDNS},
		{Type: corev1.NodeHostName, Address: i.PrivateDNS},
	}
	if o.KubeletPort != 0 {
		list = append(list, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: "localhost"})
	}
	return list
}

func (o Options) daemonEndpoints() corev1.NodeDaemonEndpoints {
	return corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: o.KubeletPort}}
}

// register creates the Node.
func (s *Simulator) register(ctx context.Context, f facts) error {
	_, err := s.Client.CoreV1().Nodes().Create(ctx, s.newNode(f), metav1.CreateOptions{})
	if err != nil { // if it exists, it will be seen, and either adopted or waited for
		return fmt.Errorf("register node %s: %w", f.instance.PrivateDNS, err)
	}
	s.mu.Lock()
	if m := s.machines[f.instance.ID]; m != nil {
		m.joined, m.joinedAt, m.seen, m.csiNode = true, s.Clock.Now(), false, false
	}
	s.mu.Unlock()
	return nil
}

func (s *Simulator) setProviderID(ctx context.Context, f facts) error {
	body := patch(map[string]any{
		"metadata": map[string]any{"uid": f.node.UID}, "spec": map[string]any{"providerID": providerID(f.instance)},
	})
	_, err := s.Client.CoreV1().Nodes().Patch(ctx, f.node.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// createCSINode acts for the volume driver on the node.
func (s *Simulator) createCSINode(ctx context.Context, f facts) error {
	if f.config.Family != Windows {
		if err := s.registerDriver(ctx, f); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[f.instance.ID]; m != nil {
		m.csiNode = true
	}
	return nil
}

func (s *Simulator) registerDriver(ctx context.Context, f facts) error {
	csiNodes := s.Client.StorageV1().CSINodes()
	_, err := csiNodes.Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: f.node.Name, OwnerReferences: []metav1.OwnerReference{ownedBy(f.node)}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: ebsDriver, NodeID: f.instance.ID, TopologyKeys: []string{ebsZoneLabel},
			Allocatable: &storagev1.VolumeNodeResources{Count: new(s.VolumeLimit)},
		}}},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := csiNodes.Get(ctx, f.node.Name, metav1.GetOptions{})
	if err != nil || len(old.OwnerReferences) == 0 || old.OwnerReferences[0].UID == f.node.UID {
		return err
	}
	// Of an earlier Node of this name, and about to be collected with it.
	err = csiNodes.Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))})
	if ignoreNotFound(err) != nil {
		return err
	}
	return fmt.Errorf("the CSINode of an earlier Node %s was in the way", old.Name)
}

func ownedBy(n *corev1.Node) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}

// reportStatus writes the status of a node if it is not yet so: readiness, after someone else changed
// it too, and resources.
func (s *Simulator) reportStatus(ctx context.Context, f facts, n *corev1.Node, ready bool) error {
	capacity, allocatable := s.nodeResources(f)
	status := map[string]any{}
	if changed := conditionsPatch(n.Status.Conditions, reportedConditions(f, n, ready)); len(changed) > 0 {
		status["conditions"] = changed
	}
	if !equality.Semantic.DeepEqual(capacity, n.Status.Capacity) {
		status["capacity"] = replacePatch(n.Status.Capacity, capacity)
	}
	if !equality.Semantic.DeepEqual(allocatable, n.Status.Allocatable) {
		status["allocatable"] = replacePatch(n.Status.Allocatable, allocatable)
	}
	if boot := nodeInfo(f).BootID; boot != n.Status.NodeInfo.BootID {
		status["nodeInfo"] = map[string]any{"bootID": boot}
	}
	inUse, err := s.volumesInUse(n.Name)
	if err != nil {
		return err
	}
	if !slices.Equal(inUse, n.Status.VolumesInUse) {
		status["volumesInUse"] = append([]corev1.UniqueVolumeName{}, inUse...) // none is a list too
	}
	if endpoints := s.daemonEndpoints(); n.Status.DaemonEndpoints != endpoints { // another port than in an earlier run
		status["daemonEndpoints"], status["addresses"] = endpoints, s.nodeAddresses(f.instance)
	}
	if len(status) == 0 {
		return nil
	}
	_, err = s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType,
		patch(map[string]any{"metadata": map[string]any{"uid": n.UID}, "status": status}), metav1.PatchOptions{}, "status")
	return err
}

// replacePatch is a merge patch from one list to another.
func replacePatch(from, to corev1.ResourceList) map[string]any {
	out := map[string]any{}
	for name := range from {
		out[string(name)] = nil
	}
	for name, q := range to {
		out[string(name)] = q.String()
	}
	return out
}

func (s *Simulator) dropStartupTaints(ctx context.Context, n *corev1.Node) error {
	left := slices.DeleteFunc(slices.Clone(n.Spec.Taints), s.StartupTaint)
	if len(left) == len(n.Spec.Taints) {
		return nil
	}
	body := patch(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, // the list is replaced as a whole
		"spec":     map[string]any{"taints": left},
	})
	_, err := s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// patch cannot fail: all that is passed to it are API objects and plain maps.
func patch(p map[string]any) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		return []byte("{}")
	}
	return b
}
