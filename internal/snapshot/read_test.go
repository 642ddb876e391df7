package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// apiServer is a client that answers from memory: the logic of Read is tested with it, its requests against a real API
// server are tested in the sandbox.
type apiServer struct {
	client.Client
	mu       sync.Mutex
	requests int
	refuse   map[string]error // by type of list
}

func newAPIServer(t *testing.T, objects ...client.Object) *apiServer {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme, v1alpha1.AddToScheme, autoscalingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &apiServer{refuse: map[string]error{}}
	s.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			s.mu.Lock()
			s.requests++
			err := s.refuse[strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1.")]
			s.mu.Unlock()
			if err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
	return s
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right"))
}

func options() snapshot.ReadOptions {
	return snapshot.ReadOptions{
		Name: "test", Tool: "dovetail test", Now: snapshottest.Now(), Classes: []metav1.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}},
		Market: snapshot.MarketOf(snapshottest.New(snapshottest.Options{})),
	}
}

// objectsOf are the objects of a File as a cluster has them.
func objectsOf(f *snapshot.File) []client.Object {
	var out []client.Object
	for i := range f.Objects.Namespaces {
		out = append(out, &f.Objects.Namespaces[i])
	}
	for i := range f.Objects.NodePools {
		out = append(out, &f.Objects.NodePools[i])
	}
	for i := range f.Objects.NodeClaims {
		out = append(out, &f.Objects.NodeClaims[i])
	}
	for i := range f.Objects.Nodes {
		out = append(out, &f.Objects.Nodes[i])
	}
	for i := range f.Objects.Pods {
		out = append(out, &f.Objects.Pods[i])
	}
	return out
}

func TestWI_01_ReadOfALiveCluster(t *testing.T) {
	t.Parallel()
	want := snapshottest.New(snapshottest.Options{Nodes: 4, Pending: 2})
	server := newAPIServer(t, objectsOf(want)...)
	got, err := snapshot.Read(t.Context(), server, options())
	if err != nil {
		t.Fatal(err)
	}
	if server.requests > 20 {
		t.Errorf("%d requests, want 20 at most", server.requests)
	}
	if got.Controller != snapshot.ByKarpenter || len(got.Missing) != 0 {
		t.Errorf("managed by %q, missing %v; want karpenter and nothing", got.Controller, got.Missing)
	}
	before, after := changes(t, want), changes(t, got)
	if diff := cmp.Diff(before.Before, after.Before); diff != "" {
		t.Errorf("nodes of the file differ (-fixture +read):\n%s", diff)
	}
}

// changes is the plan for a File.
func changes(t *testing.T, f *snapshot.File) inspect.Changes {
	t.Helper()
	out, err := (&snapshot.Service{File: f, Words: awsv1.Vocabulary()}).Plan(t.Context(), inspect.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReadSaysWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuse   map[string]error
		missing  []string
		failsFor string // what the plan fails for; empty: it is made
		err      string
	}{
		"WI-02: the role view, which has no nodes": {
			refuse: map[string]error{"NodeList": forbidden("nodes"), "NodePoolList": forbidden("nodepools"), "NodeClaimList": forbidden("nodeclaims"), "PersistentVolumeList": forbidden("persistentvolumes")},
			missing: []string{
				"nodeclaims.karpenter.sh", "nodepools.karpenter.sh", "nodes", "persistentvolumes",
			},
			failsFor: "nodes",
		},
		"WI-02: budgets only": {
			refuse:  map[string]error{"PodDisruptionBudgetList": forbidden("poddisruptionbudgets")},
			missing: []string{"poddisruptionbudgets.policy"},
		},
		"WI-02: pods": {
			refuse: map[string]error{"PodList": forbidden("pods")}, missing: []string{"pods"}, failsFor: "pods",
		},
		"a kind that is not served is absent": {
			refuse: map[string]error{"NodePoolList": apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, "")},
		},
		"bad credentials": {
			refuse: map[string]error{"PodList": apierrors.NewUnauthorized("no")}, err: "list pods: the API server does not accept the credentials of the kubeconfig; log in again",
		},
		"no network": {
			refuse: map[string]error{"PodList": errors.New("connection refused")}, err: "check the address of the cluster in the kubeconfig",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t, objectsOf(snapshottest.New(snapshottest.Options{Nodes: 2}))...)
			server.refuse = tc.refuse
			f, err := snapshot.Read(t.Context(), server, options())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range f.Missing {
				got = append(got, m.What)
				if m.Then == "" || m.Why == "" {
					t.Errorf("%s: what follows is not said: %+v", m.What, m)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.missing, got); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			service := &snapshot.Service{File: f, Words: awsv1.Vocabulary()}
			changes, err := service.Plan(t.Context(), inspect.WhatIf{})
			switch {
			case tc.failsFor != "":
				if err == nil || !strings.Contains(err.Error(), tc.failsFor+" could not be read") {
					t.Errorf("got error %v, want that %s could not be read", err, tc.failsFor)
				}
			case err != nil:
				t.Error(err)
			case len(changes.Notes) < len(tc.missing):
				t.Errorf("notes of the plan: %q, want one for each of %q", changes.Notes, tc.missing)
			}
		})
	}
}

func TestWI_03_WhoManagesTheNodes(t *testing.T) {
	t.Parallel()
	deployment := func(name, image string, args []string, env ...corev1.EnvVar) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"app.kubernetes.io/name": name}},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "controller", Image: image, Args: args, Env: env}},
			}}},
		}
	}
	for name, tc := range map[string]struct {
		deployments []client.Object
		nodes       int
		want        string
		spotToSpot  bool
		missing     int
	}{
		"nobody":    {want: ""},
		"karpenter": {nodes: 1, deployments: []client.Object{deployment("karpenter", "public/karpenter", nil, corev1.EnvVar{Name: "FEATURE_GATES", Value: "SpotToSpotConsolidation=true"})}, want: "karpenter", spotToSpot: true},
		"dovetail, by its arguments": {
			nodes: 1, deployments: []client.Object{deployment("karpenter", "example/image", []string{"controller", "--feature-gates=SpotToSpotConsolidation=true"})}, want: "dovetail", spotToSpot: true,
		},
		"cluster-autoscaler":                     {deployments: []client.Object{deployment("cluster-autoscaler", "ca", []string{"--scale-down-enabled"})}, want: "cluster-autoscaler"},
		"karpenter beside cluster-autoscaler":    {nodes: 1, deployments: []client.Object{deployment("cluster-autoscaler", "ca", nil), deployment("karpenter", "k", nil)}, want: "karpenter"},
		"settings that are not valid are missed": {nodes: 1, deployments: []client.Object{deployment("karpenter", "k", nil, corev1.EnvVar{Name: "BATCH_MAX_DURATION", Value: "secret"})}, want: "karpenter", missing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t, append(objectsOf(snapshottest.New(snapshottest.Options{Nodes: tc.nodes})), tc.deployments...)...)
			o := options()
			f, err := snapshot.Read(t.Context(), server, o)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && f.Controller == snapshot.ByKarpenter {
				f.Controller = "" // the fixture has a NodePool
			}
			if f.Controller != tc.want || f.Settings.Policy.SpotToSpot != tc.spotToSpot || len(f.Missing) != tc.missing {
				t.Errorf("managed by %q, spot to spot %t, missing %v; want %q, %t, %d", f.Controller, f.Settings.Policy.SpotToSpot, f.Missing, tc.want, tc.spotToSpot, tc.missing)
			}
			var text bytes.Buffer
			if err := f.Encode(&text); err != nil || strings.Contains(text.String(), "secret") {
				t.Errorf("a value of the environment is in the file, or it cannot be written: %v", err)
			}
		})
	}
}

// groups are the nodes of a cluster without NodePools, as Cluster Autoscaler manages them.
func groups() []client.Object {
	fixture := snapshottest.New(snapshottest.Options{Nodes: 4})
	var out []client.Object
	for i := range fixture.Objects.Nodes {
		n := &fixture.Objects.Nodes[i]
		for key := range n.Labels {
			if strings.Contains(key, "karpenter") {
				delete(n.Labels, key)
			}
		}
		n.Labels["eks.amazonaws.com/nodegroup"], n.Labels["team"] = "workers", "web"
		out = append(out, n)
	}
	for i := range fixture.Objects.Pods {
		out = append(out, &fixture.Objects.Pods[i])
	}
	return out
}

// Without a Deployment, the NodePools say whose they are.
func TestWI_03_DovetailByItsNodePools(t *testing.T) {
	t.Parallel()
	fixture := snapshottest.New(snapshottest.Options{Nodes: 1})
	for version, want := range map[string]string{"dovetail-1": snapshot.ByDovetail, "v3": snapshot.ByKarpenter} {
		fixture.Objects.NodePools[0].Annotations = map[string]string{karpv1.AnnotationNodePoolHashVersion: version}
		f, err := snapshot.Read(t.Context(), newAPIServer(t, objectsOf(fixture)...), options())
		if err != nil {
			t.Fatal(err)
		}
		if f.Controller != want {
			t.Errorf("hashes of version %s: managed by %q, want %q", version, f.Controller, want)
		}
	}
}

// The manifests of Cluster Autoscaler label its Deployment in another way than its chart.
func TestWI_03_ClusterAutoscalerByItsPods(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"app": snapshot.ByClusterAutoscaler, "k8s-app": snapshot.ByClusterAutoscaler, "team": ""} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ca", Labels: map[string]string{label: "cluster-autoscaler"}}}
		f, err := snapshot.Read(t.Context(), newAPIServer(t, append(groups(), pod)...), options())
		if err != nil {
			t.Fatal(err)
		}
		if f.Controller != want {
			t.Errorf("a pod with label %s: managed by %q, want %q", label, f.Controller, want)
		}
	}
}

func TestWI_04_NodeGroupsAreTakenForNodePools(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t, groups()...)
	o := options()
	o.Market = func(_ context.Context, r snapshot.MarketRequest) snapshot.Market {
		if len(r.Pools) != 0 {
			t.Errorf("the market is asked for %d NodePools that the cluster does not have", len(r.Pools))
		}
		return snapshot.Market{Price: func(string, string, string) (float64, bool) { return 0.2, true }}
	}
	f, err := snapshot.Read(t.Context(), server, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Objects.NodePools) != 1 || f.Objects.NodePools[0].Name != "workers" || f.Objects.NodePools[0].Spec.Template.ObjectMeta.Labels["team"] != "web" {
		t.Fatalf("NodePools: %+v, want workers with the label of its nodes", f.Objects.NodePools)
	}
	service := &snapshot.Service{File: f, Words: awsv1.Vocabulary()}
	fleet, err := service.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fleet.Totals.Nodes != 4 || fleet.Totals.Unpriced != 0 || fleet.Nodes[0].Pool != "workers" || fleet.Nodes[0].State != inspect.Ready {
		t.Errorf("fleet: %+v, want 4 nodes of the group, ready and with a price", fleet.Totals)
	}
	for i := range fleet.Nodes {
		if n := &fleet.Nodes[i]; n.Claim != "" || n.Created == nil || !n.Created.Equal(snapshottest.Now().Add(-24*time.Hour)) {
			t.Errorf("node %s: NodeClaim %q, created %v; want none, and a day ago", n.Name, n.Claim, n.Created)
		}
	}
	e, err := service.Explain(t.Context(), inspect.Subject{Kind: inspect.KindNode, Name: "node-0001"})
	if text := fmt.Sprint(e.Document()); err != nil || strings.Contains(text, "NodeClaim") || !strings.Contains(text, "24h old") {
		t.Errorf("%v: %s; want the age of the node, and no NodeClaim", err, text)
	}
	if claims, err := service.Subjects(t.Context(), inspect.KindNodeClaim, ""); len(claims) != 0 || err != nil {
		t.Errorf("NodeClaims %v, %v; want none", claims, err)
	}
	if got := changes(t, f); !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, "taken for a NodePool") }) {
		t.Errorf("notes: %q, want that node groups are taken for NodePools", got.Notes)
	}
}
