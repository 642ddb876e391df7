package snapshot

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Controllers that manage nodes.
const (
	ByDovetail          = "dovetail"
	ByKarpenter         = "karpenter"
	ByClusterAutoscaler = "cluster-autoscaler"
)

// manager is what manages the nodes of a cluster.
type manager struct {
	name     string // empty: not known
	settings config.Config
	missing  []Missing
}

// managerListing lists the Deployments of controllers that manage nodes. Other Deployments are not requested.
func managerListing(into *[]appsv1.Deployment) listing {
	return listing{
		resource: "deployments.apps", then: "which controller manages the nodes, and with which settings, is not known; the defaults of Dovetail apply",
		read: func(ctx context.Context, from client.Reader) error {
			named, err := labels.NewRequirement("app.kubernetes.io/name", selection.In, []string{ByDovetail, ByKarpenter, ByClusterAutoscaler, "aws-" + ByClusterAutoscaler})
			if err != nil {
				return err
			}
			var found appsv1.DeploymentList
			err = from.List(ctx, &found, &client.ListOptions{LabelSelector: labels.NewSelector().Add(*named), Raw: &metav1.ListOptions{ResourceVersion: "0"}})
			*into = found.Items
			return err
		},
	}
}

// managerOf finds out what manages the nodes: from the Deployments of controllers, else from the objects.
func managerOf(found []appsv1.Deployment, objects *Objects, cloud config.Section) manager {
	slices.SortFunc(found, func(a, b appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range found {
		d := &found[i]
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		m := manager{name: controllerOf(d)}
		if m.name == ByClusterAutoscaler {
			m.settings, _ = settingsFrom(nil, cloud)
			return m
		}
		settings, err := settingsFrom(containerOf(d), cloud)
		if err != nil {
			m.missing = append(m.missing, Missing{
				What: "settings of Deployment " + d.Namespace + "/" + d.Name, Why: "they are not valid", Then: "the defaults of Dovetail apply; `dovetail controller` says what is wrong with them",
			})
		}
		m.settings = settings
		return m
	}
	m := manager{}
	m.settings, _ = settingsFrom(nil, cloud)
	switch {
	case slices.ContainsFunc(objects.NodePools, isStamped):
		m.name = ByDovetail
	case len(objects.NodePools) > 0 || len(objects.NodeClaims) > 0:
		m.name = ByKarpenter
	case slices.ContainsFunc(objects.Pods, isClusterAutoscaler):
		m.name = ByClusterAutoscaler
	}
	return m
}

// isStamped reports whether Dovetail was the last to look after a NodePool: controllers write the version of their hashes.
func isStamped(p karpv1.NodePool) bool {
	return p.Annotations[karpv1.AnnotationNodePoolHashVersion] == drift.PoolHashVersion
}

// controllerTitle is the name of a controller as its users write it.
func controllerTitle(name string) string {
	return cmp.Or(map[string]string{ByDovetail: "Dovetail", ByKarpenter: "Karpenter", ByClusterAutoscaler: "Cluster Autoscaler"}[name], name)
}

// isClusterAutoscaler knows the pods of its manifests by their label app, which its chart does not use.
func isClusterAutoscaler(p corev1.Pod) bool {
	return p.Labels["app"] == ByClusterAutoscaler || p.Labels["k8s-app"] == ByClusterAutoscaler
}

func rank(d *appsv1.Deployment) int {
	return slices.Index([]string{ByDovetail, ByKarpenter, ByClusterAutoscaler}, controllerOf(d))
}

// controllerOf says which controller a Deployment is. The chart of Dovetail has the name and the labels of Karpenter's.
func controllerOf(d *appsv1.Deployment) string {
	if strings.Contains(d.Labels["app.kubernetes.io/name"], ByClusterAutoscaler) {
		return ByClusterAutoscaler
	}
	if c := containerOf(d); c != nil && (slices.Contains(c.Args, "controller") || strings.Contains(c.Image, ByDovetail)) {
		return ByDovetail
	}
	return ByKarpenter
}

// containerOf is the container of the controller: the one that has the settings.
func containerOf(d *appsv1.Deployment) *corev1.Container {
	list := d.Spec.Template.Spec.Containers
	for i := range list {
		if list[i].Name == "controller" {
			return &list[i]
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// settingsFrom reads the settings that a container is started with. What is not stated, or comes from elsewhere, has its
// default, as has everything if the settings are not valid.
func settingsFrom(c *corev1.Container, cloud config.Section) (config.Config, error) {
	env, args := map[string]string{}, []string(nil)
	for _, s := range config.Settings(cloud) {
		if s.Required {
			env[s.Env()] = "unknown"
		}
	}
	if c != nil {
		for _, v := range c.Env {
			if v.Value != "" {
				env[v.Name] = v.Value
			}
		}
		args = c.Args
	}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // of other controllers
	flags.Usage = func() {}
	loader := config.Bind(flags, cloud)
	err := flags.Parse(args)
	if err == nil {
		var settings config.Config
		if settings, _, err = loader.Load(func(name string) (string, bool) { v, set := env[name]; return v, set }); err == nil {
			return settings, nil
		}
	}
	if c == nil {
		return config.Config{}, err
	}
	defaults, _ := settingsFrom(nil, cloud)
	return defaults, err
}

// SettingsOf are the settings that decisions depend on, of those of a controller. classes are the kinds of node classes
// that it plans for.
func SettingsOf(c config.Config, classes []metav1.GroupKind) Settings {
	s, d := c.Scheduling, c.Disruption
	return Settings{
		Classes: classes, Strict: c.Compat.Strict, CostManaged: c.Gates.PodDeletionCostManagement, Devices: !s.IgnoreDRARequests,
		Overlays: c.Gates.NodeOverlay, Buffers: c.Gates.CapacityBuffer, DefaultSpread: DefaultSpread(s.DefaultConstraints),
		Policy: solve.Policy{
			IgnorePreferences:  s.PreferencePolicy == config.IgnorePreferences,
			BestEffortMinimums: s.MinValuesPolicy == config.BestEffortMinValues,
			NoReserved:         !c.Gates.ReservedCapacity,
			SpotToSpot:         c.Gates.SpotToSpotConsolidation,
			NodeFee:            s.NodeFee,
			SpotShare:          s.SpotPoolShare,
			SpotCost:           s.SpotSpreadMaxCost,
		},
		Tuning: disrupt.Tuning{Horizon: d.Horizon, PodCost: d.PodCost, MinAge: d.MinAge, MinSaving: d.MinSaving, AnySaving: d.MinSaving == 0},
		Methods: disrupt.Methods{
			Repair: c.Gates.NodeRepair && !c.Compat.LegacyNodeRepair, Static: c.Gates.StaticCapacity,
			TerminateFirstDrift: c.Gates.TerminateFirstDrift, TerminateFirstRepair: c.Gates.TerminateFirstRepair,
		},
	}
}

// DefaultSpread turns settings into constraints (SC-37).
func DefaultSpread(list []config.SpreadConstraint) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	for _, s := range list {
		out = append(out, corev1.TopologySpreadConstraint{
			TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew, WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(s.WhenUnsatisfiable), MinDomains: s.MinDomains,
			NodeAffinityPolicy: inclusion(s.NodeAffinityPolicy), NodeTaintsPolicy: inclusion(s.NodeTaintsPolicy),
		})
	}
	return out
}

// inclusion is a policy as constraints have it: nil if it is not given.
func inclusion(policy string) *corev1.NodeInclusionPolicy {
	if policy == "" {
		return nil
	}
	return new(corev1.NodeInclusionPolicy(policy))
}
