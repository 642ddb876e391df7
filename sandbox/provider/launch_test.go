package provider

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/eks"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// launchEnv is everything that launches need, with a class that is ready.
type launchEnv struct {
	*awsEnv
	*launch.Launcher
	market   *market
	discover *discover.Discoverer
	facts    *eks.Cluster
	class    *awsv1.EC2NodeClass
}

func (l *awsEnv) newLaunchEnv(changes ...func(*awsv1.EC2NodeClass)) *launchEnv {
	l.Helper()
	s := &launchEnv{awsEnv: l, discover: l.newDiscoverer(), class: l.newClass(changes...)}
	s.market = l.openMarket(l.newMarket(s.discover))
	l.resolve(s.discover, s.class)
	if s.class.Spec.InstanceProfile != nil {
		s.class.Status.InstanceProfile = *s.class.Spec.InstanceProfile
	} else {
		s.class.Status.InstanceProfile = l.mustEnsureProfile(l.newProfiles(), s.class)
	}
	s.restartLauncher()
	l.callControlAPI(http.MethodDelete, "calls", "")
	return s
}

// restartLauncher drops everything that only the launcher knows.
func (s *launchEnv) restartLauncher() {
	s.Helper()
	s.restartWith()
}

// restartWith is restart with other settings.
func (s *launchEnv) restartWith(changes ...func(*eks.Options)) {
	s.Helper()
	o := eks.Options{Settings: settings.AWS{ClusterName: cluster, EKSControlPlane: true, ClusterCABundle: caBundle}, EKS: awseks.NewFromConfig(s.sdk)}
	for _, change := range changes {
		change(&o)
	}
	s.facts = eks.New(o)
	if err := s.facts.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.Launcher = launch.New(launch.Options{
		EC2: ec2.NewFromConfig(s.sdk), Catalog: s.market, Discover: s.discover, Cluster: s.facts, Unavailable: s.market.unavailable,
		Reservations: s.market.reservations, Settings: launch.Settings{Region: region, ReservedCapacity: true}, Metrics: s.metrics, Now: s.currentTime,
	})
}

// needs are requirements of a claim.
type needs map[string][]string

// claim requests one instance.
func claim(name string, n needs) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{karpv1.LabelNodePool: "default", "team": "blue"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Resources:    karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		},
	}
	for _, key := range slices.Sorted(maps.Keys(n)) {
		c.Spec.Requirements = append(c.Spec.Requirements, karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: n[key]})
	}
	return c
}

// needsOf requests instance types and capacity types, in any zone.
func needsOf(instanceTypes, capacityTypes string) needs {
	return needs{corev1.LabelInstanceTypeStable: strings.Split(instanceTypes, ","), karpv1.LabelCapacityType: strings.Split(capacityTypes, ",")}
}

// inZone adds a zone.
func (n needs) inZone(zone string) needs {
	n = maps.Clone(n)
	n[corev1.LabelTopologyZone] = []string{zone}
	return n
}

func (s *launchEnv) launchClaim(c *karpv1.NodeClaim) (launch.Result, error) {
	s.Helper()
	list, err := s.market.Types(s.class, nil)
	if err != nil {
		s.Fatal(err)
	}
	return s.Launch(s.Context(), launch.Request{Claim: c, Class: s.class, Types: list})
}

func (s *launchEnv) mustLaunchClaim(c *karpv1.NodeClaim) launch.Result {
	s.Helper()
	result, err := s.launchClaim(c)
	if err != nil {
		s.Fatalf("launch of %s: %v", c.Name, err)
	}
	return result
}

// launchMany launches many claims at once.
func (s *launchEnv) launchMany(count int, n needs) (results map[string]launch.Result, failures map[string]error) {
	s.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	results, failures = map[string]launch.Result{}, map[string]error{}
	for i := range count {
		all.Go(func() {
			name := fmt.Sprintf("claim-%03d", i)
			result, err := s.launchClaim(claim(name, n))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures[name] = err
				return
			}
			results[name] = result
		})
	}
	all.Wait()
	return results, failures
}

// liveInstances are the instances that exist.
func (l *awsEnv) liveInstances() []awsemu.Instance {
	l.Helper()
	return slices.DeleteFunc(decodeControl[[]awsemu.Instance](l, "instances"), func(i awsemu.Instance) bool { return i.State == "terminated" })
}

// templateNames are the names of the launch templates.
func (l *awsEnv) templateNames() []string {
	l.Helper()
	var names []string
	for _, t := range decodeControl[map[string]awsemu.LaunchTemplate](l, "launch-templates") {
		names = append(names, t.Name)
	}
	return sorted(names)
}

// countFleetCalls are the calls for fleets, retries included, dry runs not.
func (l *awsEnv) countFleetCalls() int {
	return len(slices.DeleteFunc(l.callsOf(wire.EC2, "CreateFleet"), func(c awsemu.Call) bool { return c.Parameters["DryRun"] == "true" }))
}

// An instance is launched as spot or on demand, with the tags that the policies request, and is
// what the response says (AWS provider 5.3, 5.4, 13.1; S-140).
func TestLaunch(t *testing.T) {
	t.Parallel()
	for _, capacityType := range []string{"spot", "on-demand"} {
		t.Run(capacityType, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv(func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"cost-center": "7"} })
			got := s.mustLaunchClaim(claim("one", needsOf("m5.large,m5a.large,m6i.large", capacityType).inZone(zoneB)))
			i := s.instanceByID(got.ID)
			want := launch.Result{
				ID: i.ID, Type: i.Type, Zone: zoneB, ZoneID: "euw1-az2", Subnet: s.subnet(zoneB), Image: s.imageOfParameter(al2023),
				CapacityType: capacityType, Tenancy: "default", Launched: s.currentTime(),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if i.CapacityType != capacityType || i.Profile != s.class.Status.InstanceProfile || !slices.Equal(i.Groups, s.securityGroupIDs()) {
				t.Errorf("instance %+v", i)
			}
			tags := maps.Clone(i.Tags)
			maps.DeleteFunc(tags, func(key, _ string) bool { return strings.HasPrefix(key, "aws:") })
			wanted := ownedTags()
			wanted["cost-center"] = "7"
			if diff := cmp.Diff(wanted, tags); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
			boot, err := base64.StdEncoding.DecodeString(i.UserData)
			if err != nil || !bytes.Contains(boot, []byte("team=blue")) || !bytes.Contains(boot, []byte("https://127.0.0.1:6443")) {
				t.Errorf("user data %v:\n%s", err, boot)
			}
			if n := len(s.liveInstances()); n != 1 {
				t.Errorf("%d instances, want one", n)
			}
		})
	}
}

// S-004: where the first offerings are out, the next are requested at once: one more call and no wait.
func TestS004_TheNextOfferingsAreRequestedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ice   string
		needs needs
		want  string // capacity type
		fleet int
	}{
		"all spot is out": {
			ice: `{"capacityType":"spot"}`, needs: needsOf("m5.large,m5.xlarge,m6i.large,c5.large,r5.large", "spot,on-demand"), want: "on-demand", fleet: 2,
		},
		"one zone of a type is out": {
			ice: `{"zone":"` + zoneA + `"}`, needs: needsOf("m5.large", "on-demand"), want: "on-demand", fleet: 1, // the fleet itself goes on
		},
		"the sixty cheapest types are out": {
			needs: needs{karpv1.LabelCapacityType: {"on-demand"}, "karpenter.k8s.aws/instance-cpu": {"2", "4", "8", "16"}}, want: "on-demand", fleet: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnvWithAllTypes(t).newLaunchEnv()
			if tc.ice == "" {
				s.outForTheFirst()
			} else {
				s.post("ice", tc.ice)
			}
			got := s.mustLaunchClaim(claim("one", tc.needs))
			if got.CapacityType != tc.want || s.instanceByID(got.ID).CapacityType != tc.want {
				t.Errorf("launched %+v, want %s", got, tc.want)
			}
			if n := s.countFleetCalls(); n != tc.fleet {
				t.Errorf("%d fleets, want %d", n, tc.fleet)
			}
		})
	}
}

// outForTheFirst lets EC2 have none of what the first fleet requests, and all again for the next.
func (l *awsEnv) outForTheFirst() {
	l.Helper()
	l.post("ice", `{"capacityType":"on-demand"}`)
	var once sync.Once
	l.Cleanup(l.emu.Watch(func(c awsemu.Call) {
		if c.Action == "CreateFleet" {
			once.Do(func() { l.remove("ice") })
		}
	}))
}

// F02: with nothing left the claim gets NoCapacity, and EC2 is not called again for three minutes.
func TestFM_F02_NothingCanBeHad(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.post("ice", `{}`)
	n := needsOf("m5.large,m5.xlarge", "spot,on-demand")
	for range 3 {
		if _, err := s.launchClaim(claim("one", n)); !cloud.Is(err, cloud.NoCapacity) {
			t.Errorf("launch: %v, want NoCapacity", err)
		}
	}
	if fleets := s.countFleetCalls(); fleets != 2 {
		t.Errorf("%d fleets for three launches, want one as spot and one on demand", fleets)
	}
	s.remove("ice")
	s.advanceClock(3*time.Minute + time.Second)
	s.mustLaunchClaim(claim("one", n))
}

// A03: a response that is lost after the fleet was made leads to the same instance: through the retries
// of the SDK, through the next launch, and after a restart (A01).
func TestFM_A01_A03_ALostResponse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault   awsemu.Fault
		fails   bool // the first launch
		restart bool
	}{
		"once":                           {fault: awsemu.Fault{Count: 1, Drop: awsemu.DropAfter}},
		"in every attempt":               {fault: awsemu.Fault{Count: 3, Drop: awsemu.DropAfter}, fails: true},
		"in every attempt, then restart": {fault: awsemu.Fault{Count: 3, Drop: awsemu.DropAfter}, fails: true, restart: true},
		"cut in half":                    {fault: awsemu.Fault{Count: 1, Truncate: true}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			tc.fault.Action = "ec2:CreateFleet"
			s.injectFault(tc.fault)
			c := claim("one", needsOf("m5.large,m6i.large", "spot"))
			got, err := s.launchClaim(c)
			if (err != nil) != tc.fails {
				t.Fatalf("launch: %v", err)
			}
			if tc.fails {
				if kind := cloud.KindOf(err); kind != cloud.Unknown {
					t.Errorf("kind %d, want one that says nothing about capacity", kind)
				}
				if tc.restart {
					s.restartLauncher()
				}
				got = s.mustLaunchClaim(c)
			}
			alive := s.liveInstances()
			if len(alive) != 1 || alive[0].ID != got.ID {
				t.Errorf("%d instances are alive, want %s alone", len(alive), got.ID)
			}
			tokens := map[string]bool{}
			for _, call := range s.callsOf(wire.EC2, "CreateFleet") {
				tokens[call.Parameters["ClientToken"]] = true
			}
			if len(tokens) != 1 {
				t.Errorf("tokens %v, want one for all attempts", tokens)
			}
		})
	}
}

// A01: a token that EC2 saw with other parameters says that an instance may exist, which is no verdict on
// capacity and no reason to try forever: the next launch has another token.
func TestFM_A01_ATokenThatWasUsed(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.injectFault(awsemu.Fault{Action: "ec2:CreateFleet", Count: 3, Drop: awsemu.DropAfter})
	if _, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand"))); err == nil {
		t.Fatal("launch: no error")
	}
	_, err := s.launchClaim(claim("one", needsOf("m5.xlarge", "on-demand")))
	if !cloud.Is(err, cloud.Unknown) || !strings.Contains(err.Error(), "earlier launch") {
		t.Errorf("launch with other parameters: %v, want a word about the earlier one", err)
	}
	s.mustLaunchClaim(claim("one", needsOf("m5.xlarge", "on-demand")))
}

// A05: fifty equal claims go into one fleet, or few. Thirty get an instance each, twenty the error.
func TestFM_A05_FiftyClaimsThirtyInstances(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.post("ice", `{"capacityType":"on-demand","remaining":30}`)
	results, failures := s.launchMany(50, needsOf("m5.large", "on-demand").inZone(zoneA))
	ids := map[string]bool{}
	for _, r := range results {
		ids[r.ID] = true
	}
	if len(results) != 30 || len(ids) != 30 || len(s.liveInstances()) != 30 {
		t.Errorf("%d claims got %d instances of %d, want 30 of each", len(results), len(ids), len(s.liveInstances()))
	}
	for name, err := range failures {
		if !cloud.Is(err, cloud.NoCapacity) {
			t.Errorf("%s: %v, want NoCapacity", name, err)
		}
	}
	if n := s.countFleetCalls(); n > 12 {
		t.Errorf("%d fleets, want few", n)
	}
}

// A hundred equal claims are one fleet with one template (AWS provider 5.5).
func TestEqualClaimsShareAFleet(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	results, failures := s.launchMany(100, needsOf("m5.large,m5.xlarge", "spot,on-demand"))
	if len(results) != 100 || len(failures) != 0 || len(s.liveInstances()) != 100 {
		t.Errorf("%d claims got an instance, %d did not: %v", len(results), len(failures), failures)
	}
	// One fleet, unless the machine is so busy that the claims come more than a window of 35 ms apart.
	if fleets, templates := s.countFleetCalls(), s.countCalls(wire.EC2, "CreateLaunchTemplate"); fleets > 25 || templates > 2 {
		t.Errorf("%d fleets and %d templates, want few fleets and a template for each pod density", fleets, templates)
	}
}

// A04: EC2 delivers more than was requested. The claim gets one, the rest is for the collector.
func TestFM_A04_MoreThanRequested(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	surplus := l.launchInstances(1, onDemand, ownedTags())[0]
	id := regexp.MustCompile(`<instanceIds><item>(i-[0-9a-f]+)</item>`)
	l.sdk.HTTPClient = &http.Client{Transport: rewriting{whole{l.server.Client().Transport}, func(body []byte) []byte {
		return id.ReplaceAll(body, []byte(`<instanceIds><item>$1</item><item>`+surplus+`</item>`))
	}}}
	s := l.newLaunchEnv()
	got := s.mustLaunchClaim(claim("one", needsOf("m5.large", "on-demand")))
	if got.ID == surplus || s.instanceByID(got.ID).State == "terminated" {
		t.Errorf("got %s, want the instance that was launched", got.ID)
	}
}

// A10: a deleted launch template is created again, and the launch goes on.
func TestFM_A10_TheTemplateIsGone(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	n := needsOf("m5.large", "on-demand")
	s.mustLaunchClaim(claim("one", n))
	for id := range decodeControl[map[string]awsemu.LaunchTemplate](s.awsEnv, "launch-templates") {
		s.remove("launch-templates/" + id)
	}
	s.mustLaunchClaim(claim("two", n))
	if calls := s.countCalls(wire.EC2, "CreateLaunchTemplate"); calls != 2 {
		t.Errorf("%d templates were made, want the first and its replacement", calls)
	}
	if n := s.countFleetCalls(); n != 3 {
		t.Errorf("%d fleets, want one for the first, and a failed one and another for the second", n)
	}
}

// A11: EC2 does not see an instance profile that was just made. That passes.
func TestFM_A11_TheProfileIsTooNew(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("lag", `{"profiles":"10s"}`)
	s := l.newLaunchEnv()
	if reason, message, retry, err := s.Validate(t.Context(), s.class); reason != "" || !retry || err == nil {
		t.Errorf("validate: %q %q %v %v, want to be called again", reason, message, retry, err)
	}
	_, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand")))
	if e := asError(err); e == nil || e.Kind != cloud.Unknown || e.Reason != "InstanceProfileNameInvalid" {
		t.Errorf("launch: %v, want one that can be repeated and says why", err)
	}
	s.advanceClock(11 * time.Second)
	if reason, message, retry, err := s.Validate(t.Context(), s.class); reason != "" || retry || err != nil {
		t.Errorf("validate later: %q %q %v %v", reason, message, retry, err)
	}
	s.mustLaunchClaim(claim("one", needsOf("m5.large", "on-demand")))
}

func asError(err error) *cloud.Error {
	e, _ := errors.AsType[*cloud.Error](err)
	return e
}

// A profile that the user names and that does not exist is the user's to correct.
func TestAProfileThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv(func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", new("nobody") })
	reason, message, retry, err := s.Validate(t.Context(), s.class)
	if reason != "InstanceProfileNotFound" || !strings.Contains(message, "nobody") || !retry || err != nil {
		t.Errorf("validate: %q %q %v %v", reason, message, retry, err)
	}
}

// A15: user data that EC2 would refuse is found before any fleet.
func TestFM_A15_UserDataIsTooLong(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv(func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new(strings.Repeat("x", 20000)) })
	if reason, message, _, err := s.Validate(t.Context(), s.class); reason != "UserDataSizeLimitExceeded" || message == "" || err != nil {
		t.Errorf("validate: %q %q %v", reason, message, err)
	}
	if _, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand"))); err == nil || s.countFleetCalls() > 0 {
		t.Errorf("launch: %v after %d fleets", err, s.countFleetCalls())
	}
}
