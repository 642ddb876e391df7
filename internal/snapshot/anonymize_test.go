package snapshot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// private begins every name that a drawn cluster has, so that one that is left over is found.
const private = "acme"

// clusters draws clusters whose names are in any order, with what refers to names: labels, taints, spread, affinity,
// budgets, claims and volumes.
func clusters() *rapid.Generator[*snapshot.File] {
	return rapid.Custom(func(t *rapid.T) *snapshot.File {
		seen := map[string]bool{}
		name := func(label string) string {
			return private + rapid.StringMatching(`[a-z]{3,8}`).Filter(func(s string) bool {
				fresh := !seen[s]
				seen[s] = true
				return fresh
			}).Draw(t, label)
		}
		f := snapshottest.New(snapshottest.Options{})
		pool := &f.Objects.NodePools[0]
		team, app, workload := name("label key")+".example.com/team", name("label value"), name("workload")
		taint := corev1.Taint{Key: name("taint") + ".example.com/dedicated", Value: name("taint value"), Effect: corev1.TaintEffectNoSchedule}
		if rapid.Bool().Draw(t, "team") {
			pool.Spec.Template.ObjectMeta.Labels = map[string]string{team: app}
		}
		tainted := rapid.Bool().Draw(t, "tainted")
		if tainted {
			pool.Spec.Template.Spec.Taints = []corev1.Taint{taint}
		}
		class := name("storage class")
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		f.Objects.StorageClasses = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode}}
		zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
		var nodes []string
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			node := name("node")
			zone := rapid.SampledFrom(zones).Draw(t, "zone")
			claim, object := snapshottest.Node(node, rapid.SampledFrom([]string{"m5.xlarge", "m5.2xlarge"}).Draw(t, "type"), zone, rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(t, "market"))
			if tainted {
				object.Spec.Taints = []corev1.Taint{taint}
			}
			for _, labels := range []map[string]string{claim.Labels, object.Labels} {
				maps.Copy(labels, pool.Spec.Template.ObjectMeta.Labels)
			}
			claim.Name = name(fmt.Sprint("claim ", i))
			f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *object)
			nodes = append(nodes, node)
		}
		for i := range rapid.IntRange(1, 14).Draw(t, "pods") {
			node := rapid.SampledFrom(append([]string{""}, nodes...)).Draw(t, "where")
			p := snapshottest.Pod(name("pod"), node, rapid.SampledFrom([]string{"100m", "500m", "1500m"}).Draw(t, "cpu"), "512Mi")
			p.Labels = map[string]string{private + "label": app, "pod-template-hash": name("hash")}
			p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = workload, types.UID(private+"-owner")
			p.UID = types.UID(fmt.Sprint(private, "-pod-", i))
			if tainted {
				p.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value}}
			}
			mine := &metav1.LabelSelector{MatchLabels: map[string]string{private + "label": app}}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: mine}}
			case 1:
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: mine}}}}
			case 2:
				p.Spec.NodeSelector = map[string]string{team: app}
			case 3:
				volume := name("volume")
				claim := corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
					Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: &class}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
				}
				f.Objects.VolumeClaims = append(f.Objects.VolumeClaims, claim)
				f.Objects.Volumes = append(f.Objects.Volumes, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + private}},
					NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{rapid.SampledFrom(zones).Draw(t, "volume zone")}}},
					}}}},
				}})
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			case 4:
				p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
			}
			f.Objects.Pods = append(f.Objects.Pods, *p)
		}
		for range rapid.IntRange(0, 2).Draw(t, "commands") {
			addCommand(t, f, name)
		}
		if rapid.Bool().Draw(t, "launching") {
			f.Objects.NodeClaims = append(f.Objects.NodeClaims, *launching(t, name("launch"), podsOn(f, "")))
		}
		if rapid.Bool().Draw(t, "budget") {
			f.Objects.Budgets = []policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name("budget")},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{private + "label": app}}},
				Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
			}}
		}
		f.Objects.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name("daemon"), UID: private + "-daemon"}}}
		f.Missing = []snapshot.Missing{{What: "instance types of NodePool " + nodes[0], Why: "account " + private, Then: "a plan knows only those of nodes that exist"}}
		return f
	})
}

// podsOn are the pods on a node; those without one if it is empty.
func podsOn(f *snapshot.File, node string) []cluster.PodKey {
	var out []cluster.PodKey
	for i := range f.Objects.Pods {
		if p := &f.Objects.Pods[i]; p.Spec.NodeName == node {
			out = append(out, cluster.PodKey{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return out
}

// launching is a NodeClaim without a Node that some of the pods are planned on.
func launching(t *rapid.T, name string, pods []cluster.PodKey) *karpv1.NodeClaim {
	claim, _ := snapshottest.Node(name, rapid.SampledFrom([]string{"m5.xlarge", "m5.2xlarge"}).Draw(t, "type of a launch"), "us-east-1b", "spot")
	claim.Name, claim.Status, claim.CreationTimestamp = name, karpv1.NodeClaimStatus{}, metav1.NewTime(snapshottest.Now().Add(-20*time.Second))
	delete(claim.Labels, karpv1.LabelRegistered)
	delete(claim.Labels, karpv1.LabelInitialized)
	pods = slices.DeleteFunc(slices.Clone(pods), func(cluster.PodKey) bool { return rapid.Bool().Draw(t, "planned elsewhere") })
	pods = append(pods, cluster.PodKey{Namespace: "default", Name: private + "-that-ended"})
	claim.Annotations = map[string]string{karpv1.AnnotationPods: cluster.HashPods(pods)}
	return claim
}

// addCommand adds a command that replaces some nodes, as its controller left it: with all of its replacements or not, and
// holding its nodes or not yet.
func addCommand(t *rapid.T, f *snapshot.File, name func(label string) string) {
	order := cluster.Order{
		ID: name("command"), Of: rapid.IntRange(1, 2).Draw(t, "replacements"), Reason: karpv1.ReasonUnderutilized, Decided: snapshottest.Now().Add(-time.Minute),
		Because: "a node of " + private,
	}
	var pods []cluster.PodKey
	held := rapid.Bool().Draw(t, "held")
	for i := range f.Objects.Nodes {
		node := &f.Objects.Nodes[i]
		if rapid.IntRange(0, 2).Draw(t, "replaced") > 0 || node.Annotations[karpv1.AnnotationHeldBy] != "" {
			continue
		}
		claim := &f.Objects.NodeClaims[i]
		order.Replaces, pods = append(order.Replaces, claim.Name), append(pods, podsOn(f, node.Name)...)
		if held {
			node.Annotations = map[string]string{karpv1.AnnotationHeldBy: cluster.CommandToken(order.ID, order.Decided)}
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
			claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: "Underutilized", Message: "by " + private})
		}
	}
	if len(order.Replaces) == 0 {
		return
	}
	for range rapid.IntRange(1, 2).Draw(t, "launched replacements") {
		claim := launching(t, name("replacement"), pods)
		maps.Copy(claim.Annotations, order.Annotations())
		f.Objects.NodeClaims = append(f.Objects.NodeClaims, *claim)
	}
}

// A command that runs counts in the plan of a file with names: forgetting it would make another plan.
func TestWI_16_CommandsThatRunStay(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 3, Pods: 3})
	order := cluster.Order{ID: "0123abcd", Of: 1, Reason: karpv1.ReasonUnderutilized, Decided: snapshottest.Now(), Replaces: []string{"claim-node-0001"}, Because: "it is dear"}
	token := cluster.CommandToken(order.ID, order.Decided)
	f.Objects.Nodes[1].Annotations = map[string]string{karpv1.AnnotationHeldBy: token}
	f.Objects.NodeClaims[1].Status.Conditions = append(f.Objects.NodeClaims[1].Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue})
	coming, _ := snapshottest.Node("coming", "m5.xlarge", "us-east-1b", "spot")
	coming.Status, coming.Annotations = karpv1.NodeClaimStatus{}, order.Annotations()
	pods := podsOn(f, "node-0001")
	coming.Annotations[karpv1.AnnotationPods] = cluster.HashPods(append(pods, cluster.PodKey{Namespace: "default", Name: "ended"}))
	f.Objects.NodeClaims = append(f.Objects.NodeClaims, *coming)
	other, names, err := f.AnonymizeWithNames(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	claim := &other.Objects.NodeClaims[3]
	read, is := cluster.ReadOrder(claim.Annotations)
	want := order
	want.ID, want.Replaces, want.Because = names[order.ID], []string{names["claim-node-0001"]}, ""
	want.Token, want.Decided = cluster.CommandToken(want.ID, want.Decided), read.Decided
	if diff := cmp.Diff(want, read); !is || diff != "" || !read.Decided.Equal(order.Decided) {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
	if got := other.Objects.Nodes[1].Annotations[karpv1.AnnotationHeldBy]; got != want.Token {
		t.Errorf("the node is held by %q, want %q", got, want.Token)
	}
	for i := range pods {
		pods[i] = cluster.PodKey{Namespace: names[pods[i].Namespace], Name: names[pods[i].Name]}
	}
	if got := claim.Annotations[karpv1.AnnotationPods]; got != cluster.HashPods(pods) {
		t.Errorf("pods of the launch are %q, want %q", got, cluster.HashPods(pods))
	}
	if text := encoded(t, other); strings.Contains(text, order.ID) || strings.Contains(text, "it is dear") {
		t.Errorf("the id or the reason of the command is left: %s", text)
	}
	for name, annotations := range map[string]map[string]string{
		"no JSON":  {karpv1.AnnotationReplaces: "a", karpv1.AnnotationCommand: "secret"},
		"a part":   {karpv1.AnnotationReplaces: "secret"},
		"no token": {karpv1.AnnotationHeldBy: "secret-!"},
		"no pods":  {karpv1.AnnotationPods: "secret"},
	} {
		f.Objects.NodeClaims[3].Annotations = annotations
		other, err := f.Anonymize(awsv1.Vocabulary())
		if err != nil || strings.Contains(encoded(t, other), "secret") {
			t.Errorf("%s: %v: malformed text is left", name, err)
		}
	}
}

func TestWI_16_TheSamePlanUpToNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := clusters().Draw(t, "cluster")
		other, names, err := f.AnonymizeWithNames(awsv1.Vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		if text := textOf(t, other); strings.Contains(text, private) {
			at := strings.Index(text, private)
			t.Fatalf("a name is left: ...%s...", text[max(0, at-80):min(len(text), at+40)])
		}
		want, got := planText(t, f, names), planText(t, other, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the plan is another (-with names +anonymous):\n%s", diff)
		}
	})
}

func textOf(t *rapid.T, f *snapshot.File) string {
	var text strings.Builder
	if err := f.Encode(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// planText is a plan as JSON, with names replaced. Notes and the ids of commands, which are digests of names, are left out.
func planText(t *rapid.T, f *snapshot.File, names map[string]string) string {
	changes, err := (&snapshot.Service{File: f, Words: awsv1.Vocabulary()}).Plan(t.Context(), inspect.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	changes.Notes = nil
	var commands []string
	number := func(id string) string {
		if id == "" {
			return ""
		}
		if !slices.Contains(commands, id) {
			commands = append(commands, id)
		}
		return fmt.Sprint("command ", slices.Index(commands, id))
	}
	for i := range changes.Remove {
		changes.Remove[i].Command = number(changes.Remove[i].Command)
	}
	for i := range changes.Launch {
		changes.Launch[i].Command = number(changes.Launch[i].Command)
	}
	text, err := json.MarshalIndent(changes, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// Nodes are added up in the order of their names, and those of new nodes are digests: the last digits may differ.
	rounded := regexp.MustCompile(`\d+\.\d{9,}`).ReplaceAllStringFunc(string(text), func(number string) string {
		usd, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(math.Round(usd*1e6)/1e6, 'f', -1, 64)
	})
	return regexp.MustCompile(`[a-zA-Z0-9][a-zA-Z0-9._/-]*`).ReplaceAllStringFunc(rounded, func(word string) string {
		if other, is := names[word]; is {
			return other
		}
		parts := strings.Split(word, "/")
		for i, part := range parts {
			if other, is := names[part]; is {
				parts[i] = other
			}
		}
		return strings.Join(parts, "/")
	})
}

func TestWI_17_NamesAreReplacedConsistently(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 3, Pending: 1})
	f.Objects.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0000", "team": "web"}
	first, names, err := f.AnonymizeWithNames(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Anonymize(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded(t, first), encoded(t, second)); diff != "" {
		t.Errorf("the same file gives two (-first +second):\n%s", diff)
	}
	node, p := first.Objects.Nodes[0], first.Objects.Pods[0]
	switch {
	case node.Name != names["node-0000"] || node.Labels[corev1.LabelHostname] != node.Name || p.Spec.NodeName != node.Name || p.Spec.NodeSelector[corev1.LabelHostname] != node.Name:
		t.Errorf("the node is called %s, with hostname %s, its pod is on %s and selects %v", node.Name, node.Labels[corev1.LabelHostname], p.Spec.NodeName, p.Spec.NodeSelector)
	case node.Labels[corev1.LabelInstanceTypeStable] != "m5.xlarge" || node.Labels[corev1.LabelTopologyZone] != "us-east-1a" || node.Labels[karpv1.LabelCapacityType] != "on-demand":
		t.Errorf("labels that everybody knows were replaced: %v", node.Labels)
	case p.Spec.NodeSelector["team"] != "" || len(p.Spec.NodeSelector) != 2:
		t.Errorf("the label of a user is left: %v", p.Spec.NodeSelector)
	case !first.Anonymized || f.Anonymized || f.Objects.Nodes[0].Name != "node-0000":
		t.Errorf("anonymized: %t; the file itself: %t, %s", first.Anonymized, f.Anonymized, f.Objects.Nodes[0].Name)
	}
	again, err := first.Anonymize(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded(t, first), encoded(t, again)); diff != "" {
		t.Errorf("anonymizing twice is not anonymizing once:\n%s", diff)
	}
}
