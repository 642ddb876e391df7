package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/interrupt"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/aws/zonalshift"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/cloud/periodic"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const (
	catalogueEvery = 12 * time.Hour
	pricesEvery    = 12 * time.Hour
	versionEvery   = 5 * time.Minute
)

// Register adds the AWS controllers to a manager. They run only while this process leads (15).
func (c *Cloud) Register(mgr ctrl.Manager) error {
	for _, add := range []func(ctrl.Manager) error{c.addRefreshers, c.addClasses, c.addInstances} {
		if err := add(mgr); err != nil {
			return err
		}
	}
	return mgr.Add(c.launcher) // loads the launch templates once we lead, and deletes those that are not used
}

// namedRound is a round with the name of its controller.
type namedRound struct {
	name string
	do   periodic.Task
}

func addPeriodicTasks(mgr ctrl.Manager, list ...namedRound) error {
	for _, r := range list {
		if err := periodic.Add(mgr, r.name, r.do); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) addRefreshers(mgr ctrl.Manager) error {
	list := []namedRound{
		{"providers.instancetype", periodic.EveryAfter(c.loaded, c.o.Now, catalogueEvery, c.catalog.Refresh)},
		{"providers.pricing", periodic.Every(pricesEvery, c.prices.Refresh)},
		{"providers.ssm.invalidation", periodic.Every(discover.ParametersEvery, c.discoverer.InvalidateParameters)},
		{"providers.version", periodic.Every(versionEvery, c.cluster.RefreshVersion)},
	}
	if settings.Of(c.o.Config).ZonalShift {
		list = append(list, namedRound{"zonalshift", periodic.Every(zonalshift.PollEvery, c.shifts.Poll)})
	}
	return addPeriodicTasks(mgr, list...)
}

func (c *Cloud) addClasses(mgr ctrl.Manager) error {
	classes := &nodeclass.Classes{
		Client: c.o.Client, Resolve: c.discoverer, Profiles: c.profiles, Launch: c.launcher, Cluster: c.cluster, Events: c.o.Events, Now: c.o.Now,
		Settings: nodeclass.Settings{
			ReservedCapacity: c.o.Config.Gates.ReservedCapacity, NodeClassCEL: settings.Of(c.o.Config).Gates.NodeClassCEL, DryRunDisabled: settings.Of(c.o.Config).DryRunDisabled,
		},
		Machines: c.machines, DropClass: c.discoverer.DropClass,
	}
	if err := classes.Register(mgr); err != nil {
		return err
	}
	if err := (&nodeclass.Hashes{Client: c.o.Client, Cluster: c.cluster}).Register(mgr); err != nil {
		return err
	}
	if settings.Of(c.o.Config).IsolatedVPC {
		return nil
	}
	return periodic.Add(mgr, "instanceprofile.garbagecollection", periodic.Every(profile.CollectEvery, func(ctx context.Context) error {
		return c.profiles.Collect(ctx, c.o.Client)
	}))
}

func (c *Cloud) addInstances(mgr ctrl.Manager) error {
	lookup := directory.Cache{Reader: c.o.Client}
	tagger := &tagger{client: c.o.Client, ec2: c.clients.ec2, inventory: c.inventory, shifted: c.shifts.Shifted, cluster: settings.Of(c.o.Config).ClusterName, now: c.o.Now}
	if err := tagger.register(mgr); err != nil {
		return err
	}
	observer := &observer{
		client: c.o.Client, directory: lookup, types: c.catalog, strict: c.o.Config.Compat.Strict, learn: c.catalog.ObserveMemory, learnStorage: c.catalog.ObserveStorage,
		class: func(ctx context.Context, ref karpv1.NodeClassReference) (*awsv1.EC2NodeClass, error) {
			class, _, err := c.class(ctx, ref, nil)
			return class, err
		},
	}
	if err := observer.register(mgr); err != nil {
		return err
	}
	held := &reservations{
		client: c.o.Client, directory: lookup, inventory: c.inventory, remover: c.o.Remover, now: c.o.Now,
	}
	return addPeriodicTasks(mgr,
		namedRound{"capacityreservation.expiration", periodic.Every(reservationsEvery, held.deleteExpiringBlocks)},
		namedRound{"capacityreservation.capacitytype", periodic.Every(reservationsEvery, held.relabel)},
	)
}

// Interruptions are the queue, if there is one, and the status checks of EC2.
func (c *Cloud) Interruptions(actor *respond.Actor) []manager.Runnable {
	list := []manager.Runnable{&interrupt.Statuses{EC2: c.clients.ec2, Actor: actor, Metrics: c.o.Metrics, Now: c.o.Now}}
	if name := settings.Of(c.o.Config).InterruptionQueue; name != "" {
		list = append(list, &interrupt.Queue{Name: name, SQS: c.clients.sqs, Actor: actor, Instances: c.inventory, Cluster: settings.Of(c.o.Config).ClusterName, Metrics: c.o.Metrics, Now: c.o.Now})
	}
	return list
}

// machines are the instance types on which the expressions of a class's kubelet settings are tried, each
// with the pods it would have without them.
func (c *Cloud) machines(class *awsv1.EC2NodeClass) ([]kubelet.Machine, error) {
	plain := class.DeepCopy()
	plain.Spec.Kubelet = nil
	all, err := c.catalog.Types(plain, nil)
	if err != nil {
		return nil, err
	}
	out := make([]kubelet.Machine, 0, len(all))
	for i := range all {
		if info, known := c.catalog.Raw(all[i].Name); known {
			out = append(out, kubeletMachine(info, int(all[i].Capacity.At(resources.Pods))))
		}
	}
	return out, nil
}

// kubeletMachine is what expressions may query about an instance type.
func kubeletMachine(info ec2types.InstanceTypeInfo, pods int) kubelet.Machine {
	m := kubelet.Machine{Type: string(info.InstanceType), Pods: pods}
	if v := info.VCpuInfo; v != nil {
		m.VCPUs = int(aws.ToInt32(v.DefaultVCpus))
	}
	if v := info.MemoryInfo; v != nil {
		m.MemoryMiB = int(aws.ToInt64(v.SizeInMiB))
	}
	if v := info.NetworkInfo; v != nil {
		m.IPsPerENI, m.DefaultENIs = int(aws.ToInt32(v.Ipv4AddressesPerInterface)), int(aws.ToInt32(v.MaximumNetworkInterfaces))
		for _, card := range v.NetworkCards {
			if aws.ToInt32(card.NetworkCardIndex) == aws.ToInt32(v.DefaultNetworkCardIndex) {
				m.DefaultENIs = int(aws.ToInt32(card.MaximumNetworkInterfaces))
			}
		}
	}
	return m
}
