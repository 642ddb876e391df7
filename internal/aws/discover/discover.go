package discover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// EC2 is the part of the EC2 API that discovery uses.
type EC2 interface {
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput, ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error)
	DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput, ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error)
	DescribePlacementGroups(context.Context, *ec2.DescribePlacementGroupsInput, ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error)
}

// SSM is the part of the parameter store API that discovery uses. It reads single parameters only: users' accounts
// grant controllers no more.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Lifetimes of cached responses (AWS provider 10).
const (
	defaultLifetime   = time.Minute
	aliasLifetime     = 24 * time.Hour
	parameterLifetime = 5 * time.Minute // of parameters that users name
	lastGoodLifetime  = 24 * time.Hour  // of a placement group while EC2 cannot be called

	// ParametersEvery is how often InvalidateParameters is to run, as `providers.ssm.invalidation`.
	ParametersEvery = 30 * time.Minute
)

// Options are what a Discoverer works with.
type Options struct {
	EC2 EC2
	SSM SSM
	Now func() time.Time

	SubnetsEvery, ImagesEvery time.Duration // settings subnet-refresh-interval and ami-refresh-interval

	// ClusterGroup returns the id of the security group that EKS created for the cluster, empty if there is none. It
	// is called only for classes that name no groups (L-08); nil means that there is none.
	ClusterGroup func(ctx context.Context) (string, error)
	// ReservationSeen receives the free instances of every reservation in a response, and when the request was sent.
	ReservationSeen func(id string, free int, queried time.Time)
}

// Discoverer looks selector terms up. It is safe for concurrent use.
type Discoverer struct {
	o Options

	subnets      *responseCache[string, []Subnet]
	groups       *responseCache[string, []awsv1.SecurityGroup]
	images       *responseCache[string, []awsv1.AMI]
	reservations *responseCache[string, []ec2types.CapacityReservation]
	placement    *responseCache[string, *PlacementGroup]
	lastGood     *responseCache[string, PlacementGroup]
	parameters   *responseCache[string, parameter]

	mu     sync.Mutex
	logged map[loggedResponse]string
	used   map[loggedResponse]use
}

// use is the key of the response that a class was given last, and the version of the class then.
type use struct {
	key        string
	generation int64
}

// canonical is text that is the same for selector terms which select the same. Responses are cached by it, so
// that classes with equal terms share them.
func canonical[T any](terms []T, rest ...string) string {
	list := make([]string, 0, len(terms))
	for i := range terms {
		text, err := json.Marshal(&terms[i])
		if err != nil { // cannot be: text and maps of text
			text = fmt.Append(nil, terms[i])
		}
		list = append(list, string(text))
	}
	slices.Sort(list)
	return strings.Join(append(slices.Compact(list), rest...), "\n")
}

// recordUse records that a class uses the response of a key. An edited class causes a new request: users edit a class
// to have it evaluated again.
func (d *Discoverer) recordUse(class *awsv1.EC2NodeClass, what, key string) (edited bool) {
	n := loggedResponse{uid: class.UID, name: class.Name, what: what}
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.used[n]
	d.used[n] = use{key: key, generation: class.Generation}
	return known && before.generation != class.Generation
}

// New returns a Discoverer that knows nothing yet.
func New(o Options) *Discoverer {
	subnetsFor, imagesFor := max(o.SubnetsEvery, defaultLifetime), max(o.ImagesEvery, defaultLifetime)
	return &Discoverer{
		o:            o,
		subnets:      newResponseCache[string, []Subnet](subnetsFor, o.Now),
		groups:       newResponseCache[string, []awsv1.SecurityGroup](defaultLifetime, o.Now),
		images:       newResponseCache[string, []awsv1.AMI](imagesFor, o.Now),
		reservations: newResponseCache[string, []ec2types.CapacityReservation](defaultLifetime, o.Now),
		placement:    newResponseCache[string, *PlacementGroup](defaultLifetime, o.Now),
		lastGood:     newResponseCache[string, PlacementGroup](lastGoodLifetime, o.Now),
		parameters:   newResponseCache[string, parameter](aliasLifetime, o.Now),
		logged:       map[loggedResponse]string{},
		used:         map[loggedResponse]use{},
	}
}

// DropClass drops everything about a deleted class, and the responses that no other class uses.
func (d *Discoverer) DropClass(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.logged, func(n loggedResponse, _ string) bool { return n.uid == uid })
	maps.DeleteFunc(d.used, func(n loggedResponse, _ use) bool { return n.uid == uid })
	needed := map[string]bool{}
	for n, u := range d.used {
		needed[n.what+u.key] = true
	}
	unused := func(what string) func(string) bool { return func(key string) bool { return !needed[what+key] } }
	d.subnets.dropMatching(unused(subnets))
	d.groups.dropMatching(unused(groups))
	d.images.dropMatching(unused(images))
	d.reservations.dropMatching(unused(reservations))
}

// What is discovered, as the log names it.
const (
	subnets      = "subnets"
	groups       = "security groups"
	images       = "amis"
	reservations = "capacity reservations"
)

// loggedResponse is one kind of response about one class.
type loggedResponse struct {
	uid  types.UID
	name string
	what string
}

// logIfChanged writes a log line about a response, unless it is unchanged.
func (d *Discoverer) logIfChanged(ctx context.Context, class *awsv1.EC2NodeClass, what string, ids []string) {
	sorted := slices.Sorted(slices.Values(ids))
	n, text := loggedResponse{uid: class.UID, name: class.Name, what: what}, strings.Join(sorted, ",")
	d.mu.Lock()
	before, known := d.logged[n]
	d.logged[n] = text
	d.mu.Unlock()
	if known && before == text {
		return
	}
	log.FromContext(ctx).Info("discovered "+what, "NodeClass", klog.KRef("", class.Name), "ids", sorted)
}
