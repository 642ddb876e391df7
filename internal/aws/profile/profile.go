package profile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Reasons of InstanceProfileReady that are not true. They are Dovetail's own: users should see in the
// class that a role is missing, not in a log alone.
const (
	RoleNotFound                    = "RoleNotFound"
	InstanceProfileUnauthorized     = "InstanceProfileUnauthorized"
	InstanceProfileResolutionFailed = "InstanceProfileResolutionFailed"
)

// CollectEvery is how often Collect is to run, as `instanceprofile.garbagecollection`.
const CollectEvery = 30 * time.Minute

const (
	knownFor     = 15 * time.Minute
	guardedFor   = time.Minute // the profile just made for a class, in case its status could not be written
	missingFor   = time.Minute // a role that does not exist
	protectedFor = time.Hour

	maxName = 128 // of an IAM name
)

type reader interface {
	GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	ListInstanceProfiles(context.Context, *iam.ListInstanceProfilesInput, ...func(*iam.Options)) (*iam.ListInstanceProfilesOutput, error)
}

type writer interface {
	CreateInstanceProfile(context.Context, *iam.CreateInstanceProfileInput, ...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *iam.AddRoleToInstanceProfileInput, ...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *iam.RemoveRoleFromInstanceProfileInput, ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *iam.DeleteInstanceProfileInput, ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error)
}

// IAM is the part of the IAM API that is called.
type IAM interface {
	reader
	writer
}

// Options are what Profiles work with.
type Options struct {
	IAM             IAM
	Cluster, Region string
	Isolated        bool          // no way to IAM is expected: nothing is collected or deleted
	Strict          bool          // a role must be a role; else it may be the name of a profile (L-11)
	NewID           func() string // something that never repeats, such as a UUID
	Now             func() time.Time
}

// Profiles keeps the profiles of one cluster. It is safe for concurrent use.
type Profiles struct {
	o Options

	mu        sync.Mutex
	known     map[string]fact // by profile: its role
	guarded   map[owner]fact  // profile made for a role of a class
	missing   map[string]fact // by role: why it cannot be used
	protected map[string]fact // by profile
}

type owner struct {
	role  string
	class types.UID
}

type fact struct {
	text  string
	until time.Time
}

// New returns Profiles that knows nothing yet.
func New(o Options) *Profiles {
	return &Profiles{o: o, known: map[string]fact{}, guarded: map[owner]fact{}, missing: map[string]fact{}, protected: map[string]fact{}}
}

// Ensure returns the name of the profile that instances of a class get. For a role it makes one
// where the one in the status of the class is gone or has another role. Every error is a *cloud.Error
// with a reason for InstanceProfileReady; its kind is Invalid or Denied when only a person can help.
func (p *Profiles) Ensure(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if class.Spec.InstanceProfile != nil {
		return *class.Spec.InstanceProfile, nil
	}
	role, current := RoleName(class.Spec.Role), class.Status.InstanceProfile
	if current != "" {
		fits, err := p.profileHasRole(ctx, current, role)
		if err != nil || fits {
			return current, err
		}
	}
	if made, found := loadFact(p, p.guarded, owner{role, class.UID}); found {
		return made, nil
	}
	if message, found := loadFact(p, p.missing, role); found {
		return "", &cloud.Error{Kind: cloud.Invalid, Op: "find IAM role", Reason: RoleNotFound, Message: message}
	}
	name, err := p.create(ctx, class, role)
	if err != nil {
		return "", err
	}
	storeFact(p, p.guarded, owner{role, class.UID}, name, guardedFor)
	for _, held := range []string{name, current} {
		if held != "" {
			storeFact(p, p.protected, held, "", protectedFor)
		}
	}
	return name, nil
}

// RoleName is the name of a role without its path, which is all that IAM takes.
func RoleName(role string) string { return role[strings.LastIndex(role, "/")+1:] }

// RoleIsProfile says whether the role of a class was found to be the name of an instance profile
// (L-11). The status shows it: profiles that are made here never have the name of a role.
func RoleIsProfile(class *awsv1.EC2NodeClass) bool {
	return class.Spec.Role != "" && class.Status.InstanceProfile == RoleName(class.Spec.Role)
}

// profileHasRole says whether a profile exists and has the role, or is what was given as the role.
func (p *Profiles) profileHasRole(ctx context.Context, name, role string) (bool, error) {
	have, known := loadFact(p, p.known, name)
	if !known {
		response, err := p.o.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		switch {
		case awserr.NotFound(err):
			return false, nil
		case err != nil:
			return false, callError("get instance profile "+name, err)
		}
		have = roleOf(response.InstanceProfile)
		storeFact(p, p.known, name, have, knownFor)
	}
	return have == role || name == role && !p.o.Strict, nil
}

// create makes a profile with a role. A profile that gets no role is deleted at once.
func (p *Profiles) create(ctx context.Context, class *awsv1.EC2NodeClass, role string) (string, error) {
	name := p.o.Cluster + "_" + p.number(class.Name)
	_, err := p.o.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Path: new(p.path(string(class.UID))), Tags: p.tags(class)})
	if err != nil {
		return "", callError("create instance profile "+name, err)
	}
	_, err = p.o.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	if err == nil {
		storeFact(p, p.known, name, role, knownFor)
		log.FromContext(ctx).Info("created instance profile", "instance-profile", name, "role", role, "NodeClass", klog.KRef("", class.Name))
		return name, nil
	}
	// What cannot be deleted now is collected later.
	if undo := p.delete(ctx, name, role); undo != nil {
		log.FromContext(ctx).Error(undo, "could not delete an unfinished instance profile", "instance-profile", name)
	}
	if !aboutRole(err, name) {
		return "", callError("add role "+role+" to an instance profile", err)
	}
	return p.profileNamedLikeRole(ctx, role)
}

// profileNamedLikeRole looks for a role that does not exist: an instance profile of that name is taken, as
// many a manifest names one (L-11, S-077).
func (p *Profiles) profileNamedLikeRole(ctx context.Context, role string) (string, error) {
	if !p.o.Strict {
		exists, err := p.profileHasRole(ctx, role, role)
		if err != nil || exists {
			return role, err
		}
	}
	message := "IAM role " + role + " does not exist; create it, or write the name of one that exists into spec.role"
	storeFact(p, p.missing, role, message, missingFor)
	return "", &cloud.Error{Kind: cloud.Invalid, Op: "find IAM role", Reason: RoleNotFound, Message: message}
}

// aboutRole reports whether IAM misses the role rather than the profile.
func aboutRole(err error, profile string) bool {
	text := strings.ReplaceAll(strings.ToLower(awserr.Text(err)), strings.ToLower(profile), "")
	return awserr.NotFound(err) && strings.Contains(text, "role")
}

// callError says what went wrong with a call of IAM.
func callError(op string, err error) error {
	out := &cloud.Error{Kind: awserr.Kind(err), Op: op, Reason: InstanceProfileResolutionFailed, Message: awserr.Text(err), Err: err}
	if awserr.Unauthorized(err) {
		out.Kind, out.Reason = cloud.Denied, InstanceProfileUnauthorized
		out.Message = "IAM denied it: " + awserr.Text(err) + "; allow it in the policy of the controller, or name an existing profile in spec.instanceProfile"
	}
	return out
}

// path is where profiles of this cluster are, below it those of one class.
func (p *Profiles) path(below ...string) string {
	return "/" + strings.Join(append([]string{"karpenter", p.o.Region, p.o.Cluster}, below...), "/") + "/"
}

func (p *Profiles) number(class string) string {
	sum := sha256.Sum256([]byte(p.o.Region + "/" + class + "/" + p.o.NewID()))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)
}

// legacyName is the name that old releases gave the only profile of a class.
func (p *Profiles) legacyName(class string) string {
	h := fnv.New64()
	_, _ = h.Write([]byte(p.o.Region + class)) // never fails
	return p.o.Cluster + "_" + strconv.FormatUint(h.Sum64(), 10)
}

// tags are what the policies of users' controllers require, over the user's own.
func (p *Profiles) tags(class *awsv1.EC2NodeClass) []iamtypes.Tag {
	all := maps.Clone(class.Spec.Tags)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/cluster/"+p.o.Cluster] = "owned"
	all["eks:eks-cluster-name"] = p.o.Cluster
	all[awsv1.LabelNodeClass] = class.Name
	all[corev1.LabelTopologyRegion] = p.o.Region
	list := make([]iamtypes.Tag, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, iamtypes.Tag{Key: &key, Value: new(all[key])})
	}
	return list
}

func roleOf(profile *iamtypes.InstanceProfile) string {
	if profile == nil || len(profile.Roles) == 0 || profile.Roles[0].RoleName == nil {
		return ""
	}
	return *profile.Roles[0].RoleName
}

func loadFact[K comparable](p *Profiles, facts map[K]fact, key K) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, found := facts[key]
	if !found || !p.o.Now().Before(f.until) {
		return "", false
	}
	return f.text, true
}

// storeFact caches a fact and drops those that are too old.
func storeFact[K comparable](p *Profiles, facts map[K]fact, key K, text string, lifetime time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	maps.DeleteFunc(facts, func(_ K, f fact) bool { return !now.Before(f.until) })
	facts[key] = fact{text: text, until: now.Add(lifetime)}
}

func dropFacts[K comparable](p *Profiles, facts map[K]fact, match func(K) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(facts, func(key K, _ fact) bool { return match(key) })
}
