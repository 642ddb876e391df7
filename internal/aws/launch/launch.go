package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/batch"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// EC2 is the part of the EC2 API that launches use. RunInstances is called for dry runs only.
type EC2 interface {
	DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error)
	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	DeleteLaunchTemplate(context.Context, *ec2.DeleteLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error)
	CreateFleet(context.Context, *ec2.CreateFleetInput, ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
}

// Catalog knows instance types; *offering.Catalog is one.
type Catalog interface {
	Raw(instanceType string) (ec2types.InstanceTypeInfo, bool)
	Lanes() resources.Table
	Types(class *awsv1.EC2NodeClass, kubelet *runtime.RawExtension) ([]catalog.InstanceType, error)
}

// Discoverer looks up what a class selects; *discover.Discoverer is one.
type Discoverer interface {
	Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]discover.Subnet, error)
	PlacementGroup(ctx context.Context, class *awsv1.EC2NodeClass) (*discover.PlacementGroup, error)
}

// Cluster has the properties of the EKS cluster; *eks.Cluster implements it.
type Cluster interface {
	Name() string
	Endpoint() string
	CABundle() string
	DNS() string
	IPv6() bool
	ServiceCIDR(ctx context.Context) (string, error)
}

// Settings are what users decide about launches.
type Settings struct {
	Region              string
	ReservedCapacity    bool // gate
	NodeClassCEL        bool // gate
	BestEffortMinValues bool // setting min-values-policy
	DryRunDisabled      bool // setting disable-dry-run
}

// Options are what a Launcher works with.
type Options struct {
	EC2          EC2
	Catalog      Catalog
	Discover     Discoverer
	Cluster      Cluster
	Unavailable  *offering.Unavailable
	Reservations *offering.Reservations
	Settings     Settings
	Metrics      *metric.Set
	Now          func() time.Time

	// Pools returns the pools that use a class, in effective form. Only dry runs call it; nil means none.
	Pools func(ctx context.Context, class *awsv1.EC2NodeClass) ([]karpv1.NodePool, error)
}

// Request is what to launch.
type Request struct {
	Claim *karpv1.NodeClaim
	Class *awsv1.EC2NodeClass    // effective, with its status
	Types []catalog.InstanceType // all that the class has; shared, not changed
	Lanes resources.Table        // of the types, where NodeOverlays add resources; the zero Table: those of the catalogue
}

// Result is what was launched.
type Result struct {
	ID, Type, Zone, ZoneID, Subnet, Image string

	CapacityType    string
	Reservation     string
	ReservationType string // default or capacity-block
	Interruptible   bool
	Tenancy         string
	PlacementGroup  string
	Partition       string
	Launched        time.Time

	// SpotRoleMissing says that spot was tried first and the account has no service-linked role for it (F05). It is
	// worth reporting even though the launch succeeded.
	SpotRoleMissing bool
}

// ErrTokenUsed says that EC2 saw the token of a launch before, with other parameters: the instance may exist. Look
// for one without an owner before launching again (A01).
var ErrTokenUsed = errors.New("an earlier launch for this claim may have succeeded")

// Launcher launches instances. It is safe for concurrent use.
type Launcher struct {
	o         Options
	templates *templates
	addresses *addresses
	attempts  *attempts
	fleets    *batch.Batcher[*ticket, Result]
}

// New returns a Launcher.
func New(o Options) *Launcher {
	l := &Launcher{o: o, templates: newTemplates(o), addresses: newAddresses(o.Now), attempts: newAttempts(o.Now)}
	l.fleets = batch.New(batch.Options[*ticket, Result]{
		Name: "create_fleet", Idle: 35 * time.Millisecond, Max: time.Second, MaxItems: 1000,
		Bucket: func(t *ticket) string { return t.key }, RunEach: l.runBatch, Metrics: o.Metrics,
	})
	return l
}

// Launch launches the instance of a claim. Every error is a *cloud.Error; NoCapacity means that everything the claim
// allows was tried.
func (l *Launcher) Launch(ctx context.Context, r Request) (Result, error) {
	lanes := r.Lanes
	if lanes.Len() < l.o.Catalog.Lanes().Len() {
		lanes = l.o.Catalog.Lanes()
	}
	w, err := readClaim(r.Claim, lanes)
	if err != nil {
		return Result{}, err
	}
	t, err := l.prepareTicket(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	result, err := l.fleets.Do(ctx, t)
	if err == nil {
		return result, nil
	}
	l.releaseTicket(t, "") // if the caller gave up before the batch took the ticket
	if _, ours := errors.AsType[*cloud.Error](err); ours {
		return Result{}, err
	}
	return Result{}, &cloud.Error{Kind: cloud.Unknown, Op: "create fleet", Err: err}
}

// Load adopts the launch templates of an earlier leader, so that unused ones are deleted.
func (l *Launcher) Load(ctx context.Context) error { return l.templates.loadExisting(ctx) }

// DeleteTemplates deletes the launch templates of a class.
func (l *Launcher) DeleteTemplates(ctx context.Context, class *awsv1.EC2NodeClass) error {
	l.o.Metrics.UserDataBytes.DeleteLabelValues(class.Name)
	return l.templates.deleteOfClass(ctx, class)
}

// Sweep deletes launch templates that were not used for a minute. It must run every few seconds.
func (l *Launcher) Sweep(ctx context.Context) {
	l.templates.deleteUnused(ctx)
	l.attempts.dropOldAttempts()
}

// SweepEvery is how often Start sweeps.
const SweepEvery = 10 * time.Second

// Start loads and sweeps until the context ends. It is a Runnable for the leader.
func (l *Launcher) Start(ctx context.Context) error {
	if err := l.Load(ctx); err != nil {
		log.FromContext(ctx).Error(err, "failed to load launch templates")
	}
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.Sweep(ctx)
		}
	}
}

// NeedLeaderElection says that only the leader deletes templates.
func (l *Launcher) NeedLeaderElection() bool { return true }

// prepareTicket decides what to request and prepares it: it creates templates and reserves addresses. The caller must
// settle the ticket.
func (l *Launcher) prepareTicket(ctx context.Context, r Request, w want) (*ticket, error) {
	s, err := l.clusterSite(ctx, r.Class)
	if err != nil {
		return nil, err
	}
	group, err := l.placementGroupOf(ctx, r.Class)
	if err != nil {
		return nil, err
	}
	c, err := choose(r.Types, w, l.o.Settings.BestEffortMinValues, l.isUnavailable(group))
	if err != nil {
		return nil, err
	}
	if c.scarce {
		log.FromContext(ctx).Error(nil, "spot is allowed but few instance types are left; allow more types, so that spot capacity is more likely to be available",
			"instance-types", len(c.list))
	}
	o := order{request: r, want: w, choice: c, group: group, site: s}
	t := &ticket{order: o, pods: c.leastPods()}
	subnets := l.takeSubnets(ctx, r.Class, c, t.pods)
	// any order: they are given back one by one
	for _, s := range subnets {
		t.subnets = append(t.subnets, s.id)
	}
	if err := l.completeTicket(ctx, t, c.joinSubnets(subnets)); err != nil {
		l.releaseTicket(t, "")
		return nil, err
	}
	return t, nil
}

func (l *Launcher) clusterSite(ctx context.Context, class *awsv1.EC2NodeClass) (site, error) {
	c := l.o.Cluster
	s := site{
		cluster: c.Name(), endpoint: c.Endpoint(), caBundle: c.CABundle(), dns: c.DNS(), ipv6: c.IPv6(), region: l.o.Settings.Region,
		reserved: l.o.Settings.ReservedCapacity, expressions: l.o.Settings.NodeClassCEL, raw: l.o.Catalog.Raw,
	}
	if ami.Of(class.Family()).NeedsServiceCIDR {
		cidr, err := c.ServiceCIDR(ctx)
		if err != nil {
			return site{}, &cloud.Error{Kind: cloud.NotReady, Op: "find service CIDR of cluster " + c.Name(), Reason: "ClusterCIDRResolutionFailed", Err: err}
		}
		s.serviceCIDR = cidr
	}
	return s, nil
}

func (l *Launcher) placementGroupOf(ctx context.Context, class *awsv1.EC2NodeClass) (*discover.PlacementGroup, error) {
	if class.Spec.PlacementGroupSelector == nil {
		return nil, nil
	}
	group, err := l.o.Discover.PlacementGroup(ctx, class)
	if err == nil && group == nil {
		err = fmt.Errorf("the placement group that EC2NodeClass %s selects does not exist", class.Name)
	}
	if err != nil {
		return nil, &cloud.Error{Kind: cloud.NotReady, Op: "find placement group", Err: err}
	}
	return group, nil
}

// isUnavailable reports offerings that are known to be unavailable, also those marked since the types were listed.
func (l *Launcher) isUnavailable(group *discover.PlacementGroup) func(string, *catalog.Offering) bool {
	return func(instanceType string, o *catalog.Offering) bool {
		if reserved(o) && (!l.o.Settings.ReservedCapacity || l.o.Reservations.Free(o.Reservation) <= 0) {
			return true
		}
		in := offering.Group{}
		if group != nil {
			in = offering.Group{ID: group.ID, Partition: o.Labels[awsv1.LabelPlacementGroupPartition]}
		}
		return l.o.Unavailable.Has(o.CapacityType, instanceType, o.Zone, in)
	}
}

// takeSubnets chooses the subnet of each zone and reserves addresses. While EC2 cannot be called, it uses those of
// the status and assumes that they have enough addresses.
func (l *Launcher) takeSubnets(ctx context.Context, class *awsv1.EC2NodeClass, c choice, pods int) map[string]chosenSubnet {
	const enough = 1 << 20
	free := map[string]int{}
	found, err := l.o.Discover.Subnets(ctx, class)
	if err != nil {
		log.FromContext(ctx).Error(err, "failed to count the free addresses of subnets")
	}
	for _, s := range found {
		free[s.ID] = s.Free
	}
	var list []discover.Subnet
	zones := c.zones()
	for _, s := range class.Status.Subnets {
		if !zones[s.Zone] {
			continue
		}
		n, counted := free[s.ID]
		if !counted {
			n = enough
		}
		list = append(list, discover.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID, Free: n})
	}
	return l.addresses.reserveAddresses(list, pods, l.o.Unavailable.SubnetFull)
}

// measureUserData shows how long the user data of a class is, also when it is too long for a recipe, and warns
// before EC2 refuses it (A15).
func (l *Launcher) measureUserData(ctx context.Context, class *awsv1.EC2NodeClass, list []recipe, err error) {
	longest := 0
	if refused, ok := errors.AsType[userDataTooLong](err); ok {
		longest = refused.bytes
	} else if err != nil {
		return
	}
	for _, r := range list {
		longest = max(longest, r.userData)
	}
	l.o.Metrics.UserDataBytes.WithLabelValues(class.Name).Set(float64(longest))
	if longest*10 >= maxUserData*9 {
		log.FromContext(ctx).Info("user data is close to the limit of EC2", "NodeClass", klog.KRef("", class.Name), "bytes", longest, "limit", maxUserData)
	}
}

// asCloud converts an error of an EC2 call into a *cloud.Error.
func asCloud(op string, err error) *cloud.Error {
	if known, ok := errors.AsType[*cloud.Error](err); ok {
		return known
	}
	out := &cloud.Error{Kind: awserr.Kind(err), Op: op, Err: err}
	if out.Kind == cloud.NotFound { // of a template or the like; to callers it would mean: no such instance
		out.Kind = cloud.Unknown
	}
	if code := awserr.Code(err); code != "" {
		reason, text := awserr.LaunchReason(code, awserr.Text(err))
		out.Reason, out.Message = reason, awserr.Cut(text)
	}
	return out
}
