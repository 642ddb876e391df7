package discover

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// EC2 is what is asked of EC2.
type EC2 interface {
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput, ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error)
	DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput, ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error)
	DescribePlacementGroups(context.Context, *ec2.DescribePlacementGroupsInput, ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error)
}

// SSM is what is asked of the parameter store. Only single parameters: that is what controllers are
// allowed in users' accounts.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Lifetimes of answers (AWS provider 10).
const (
	defaultLifetime   = time.Minute
	countLifetime     = 5 * time.Minute // of free addresses, and that much longer than the refresh interval less a minute
	aliasLifetime     = 24 * time.Hour
	parameterLifetime = 5 * time.Minute // of parameters that users name
	lastGoodLifetime  = 24 * time.Hour  // of a placement group that cannot be asked for

	// ParametersEvery is how often InvalidateParameters is to run, as `providers.ssm.invalidation`.
	ParametersEvery = 30 * time.Minute
)

// Options are what a Discoverer works with.
type Options struct {
	EC2 EC2
	SSM SSM
	Now func() time.Time

	SubnetsEvery, ImagesEvery time.Duration // settings subnet-refresh-interval and ami-refresh-interval

	// ClusterGroup returns the id of the security group that EKS made for the cluster, empty if there
	// is none. It is asked only for classes that name no groups (L-08); nil means that there is none.
	ClusterGroup func(ctx context.Context) (string, error)
	// ReservationSeen is told the free instances of every reservation that was just looked up.
	ReservationSeen func(id string, free int)
}

// Discoverer looks selector terms up. It is safe for concurrent use.
type Discoverer struct {
	o Options

	subnets      *memory[generation, []Subnet]
	groups       *memory[generation, []awsv1.SecurityGroup]
	images       *memory[generation, []awsv1.AMI]
	reservations *memory[generation, []ec2types.CapacityReservation]
	placement    *memory[string, *PlacementGroup]
	lastGood     *memory[string, PlacementGroup]
	parameters   *memory[string, parameter]
	counts       *memory[string, count]

	mu   sync.Mutex
	told map[news]string
}

// generation is one version of a class; the Kubernetes version decides over images too.
type generation struct {
	uid        types.UID
	name       string // tells classes apart that have no UID, as in tests and what-if questions
	generation int64
	kubernetes string
}

func keyOf(class *awsv1.EC2NodeClass) generation {
	return generation{uid: class.UID, name: class.Name, generation: class.Generation}
}

// New returns a Discoverer that knows nothing yet.
func New(o Options) *Discoverer {
	subnets, images := max(o.SubnetsEvery, defaultLifetime), max(o.ImagesEvery, defaultLifetime)
	return &Discoverer{
		o:            o,
		subnets:      remember[generation, []Subnet](subnets, o.Now),
		groups:       remember[generation, []awsv1.SecurityGroup](defaultLifetime, o.Now),
		images:       remember[generation, []awsv1.AMI](images, o.Now),
		reservations: remember[generation, []ec2types.CapacityReservation](defaultLifetime, o.Now),
		placement:    remember[string, *PlacementGroup](defaultLifetime, o.Now),
		lastGood:     remember[string, PlacementGroup](lastGoodLifetime, o.Now),
		parameters:   remember[string, parameter](aliasLifetime, o.Now),
		counts:       remember[string, count](max(countLifetime, subnets+countLifetime-defaultLifetime), o.Now),
		told:         map[news]string{},
	}
}

// Forget drops everything about a class that is gone.
func (d *Discoverer) Forget(uid types.UID) {
	mine := func(g generation) bool { return g.uid == uid }
	d.subnets.drop(mine)
	d.groups.drop(mine)
	d.images.drop(mine)
	d.reservations.drop(mine)
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.told {
		if n.uid == uid {
			delete(d.told, n)
		}
	}
}

// news is one kind of answer about one class.
type news struct {
	uid  types.UID
	name string
	what string
}

// tell writes a log line about an answer, unless it was the same the last time.
func (d *Discoverer) tell(ctx context.Context, class *awsv1.EC2NodeClass, what string, ids []string) {
	sorted := slices.Sorted(slices.Values(ids))
	n, text := news{uid: class.UID, name: class.Name, what: what}, strings.Join(sorted, ",")
	d.mu.Lock()
	before, known := d.told[n]
	d.told[n] = text
	d.mu.Unlock()
	if known && before == text {
		return
	}
	log.FromContext(ctx).Info("discovered "+what, "NodeClass", klog.KRef("", class.Name), "ids", sorted)
}
