package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// What the emulated account is called.
const (
	region   = "eu-west-1"
	cluster  = "sandbox"
	queue    = "Karpenter-sandbox"
	caBundle = "Y2VydGlmaWNhdGU="
	nodeRole = "KarpenterNodeRole-sandbox"
	zoneA    = "eu-west-1a"
	zoneB    = "eu-west-1b"
	zoneC    = "eu-west-1c"

	controllerRole = "KarpenterControllerRole-sandbox" // with the policies of the installation guide
	personKey      = "AKIAPERSON"                      // who sets the scene; may do everything
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// awsEnv is an emulated AWS behind HTTP with a clock that only moves on request.
type awsEnv struct {
	*testing.T
	emu     *awsemu.Emulator
	clock   *awsemu.Clock
	server  *httptest.Server
	sdk     aws.Config // of the controller
	keys    credentials.StaticCredentialsProvider
	person  aws.Config // of the test itself
	metrics *metric.Set
	ids     atomic.Int64
}

// newAWSEnv starts the emulator with a controller that has the policies of the installation guide, and with the
// families of instance types that most tests name.
func newAWSEnv(t *testing.T) *awsEnv {
	t.Helper()
	return newAWSEnvOf(t, "m5", "m5a", "m6i", "m6g", "c5", "r5", "t3", "g4dn")
}

// newAWSEnvWithAllTypes is newAWSEnv with all instance types there are.
func newAWSEnvWithAllTypes(t *testing.T) *awsEnv {
	t.Helper()
	return newAWSEnvOf(t)
}

func newAWSEnvOf(t *testing.T, families ...string) *awsEnv {
	t.Helper()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := awsemu.NewClock(func() time.Time { return start }, 0)
	emu := awsemu.New(awsemu.Options{Clock: clock, Seed: 1, Fixture: awsemu.Fixture{
		Account: "111122223333", Region: region, Cluster: cluster, ClusterEndpoint: "https://127.0.0.1:6443", ClusterCA: "Y2E=",
		KubernetesVersion: "1.34", Queue: queue, Families: families,
		Zones: []awsemu.Zone{{Name: zoneA, ID: "euw1-az1"}, {Name: zoneB, ID: "euw1-az2"}, {Name: zoneC, ID: "euw1-az3"}},
	}})
	l := &awsEnv{T: t, emu: emu, clock: clock, server: httptest.NewServer(emu), metrics: metric.New(prometheus.NewRegistry())}
	t.Cleanup(func() {
		l.server.CloseClientConnections() // ends long polls
		l.server.Close()
	})
	l.person = l.config(credentials.NewStaticCredentialsProvider(personKey, "secret", ""))
	l.keys = l.assumeRole(controllerRole)
	l.sdk = l.config(l.keys)
	return l
}

// assumeRole gets credentials of a role, which has to trust the account for that.
func (l *awsEnv) assumeRole(role string) credentials.StaticCredentialsProvider {
	l.Helper()
	const trust = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"sts:AssumeRole"}}`
	if _, err := iam.NewFromConfig(l.person).UpdateAssumeRolePolicy(l.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: &role, PolicyDocument: new(trust)}); err != nil {
		l.Fatal(err)
	}
	out, err := sts.NewFromConfig(l.person).AssumeRole(l.Context(), &sts.AssumeRoleInput{RoleArn: new("arn:aws:iam::111122223333:role/" + role), RoleSessionName: new("lab")})
	if err != nil {
		l.Fatal(err)
	}
	given := out.Credentials
	return credentials.NewStaticCredentialsProvider(*given.AccessKeyId, *given.SecretAccessKey, *given.SessionToken)
}

// mayPass lets the controller pass more roles than that of the guide.
func (l *awsEnv) mayPass(role string) {
	l.Helper()
	if _, err := iam.NewFromConfig(l.person).PutRolePolicy(l.Context(), &iam.PutRolePolicyInput{
		RoleName: new(controllerRole), PolicyName: new("pass"),
		PolicyDocument: new(`{"Statement":{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::111122223333:role/` + role + `"}}`),
	}); err != nil {
		l.Fatal(err)
	}
}

// config is the SDK as the controller uses it: three attempts, only without the waits between them.
func (l *awsEnv) config(keys aws.CredentialsProvider) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: &l.server.URL, Credentials: keys,
		HTTPClient: &http.Client{Transport: whole{l.server.Client().Transport}},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}
}

// whole sends requests with a body of their own. The SDK closes the body of a request as soon as a response
// begins, which ends the connection if the transport did not look for the end of the body yet: that is
// rare, except with a server as near as this one.
type whole struct{ next http.RoundTripper }

func (w whole) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		return w.next.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	own := request.Clone(request.Context())
	own.Body = io.NopCloser(bytes.NewReader(body))
	return w.next.RoundTrip(own)
}

func (l *awsEnv) currentTime() time.Time { return l.clock.Now() }

// callControlAPI steers the emulator and returns its response.
func (l *awsEnv) callControlAPI(method, path, body string) string {
	l.Helper()
	request, err := http.NewRequestWithContext(l.Context(), method, l.server.URL+"/_dovetail/"+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	response, err := l.server.Client().Do(request)
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		l.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		l.Fatalf("%s %s: %d %s", method, path, response.StatusCode, reply)
	}
	return string(reply)
}

func (l *awsEnv) putControl(path, body string) {
	l.Helper()
	l.callControlAPI(http.MethodPut, path, body)
}

func (l *awsEnv) post(path, body string) { l.Helper(); l.callControlAPI(http.MethodPost, path, body) }

func (l *awsEnv) remove(path string) { l.Helper(); l.callControlAPI(http.MethodDelete, path, "") }

// injectFault makes calls go wrong from now on.
func (l *awsEnv) injectFault(f awsemu.Fault) {
	l.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		l.Fatal(err)
	}
	l.post("faults", string(body))
}

// denyAction forbids the controller an action.
func (l *awsEnv) denyAction(action string) {
	l.Helper()
	l.post("permissions", `{"role":"`+controllerRole+`","action":"`+action+`"}`)
}

// throttleActions gives a budget of no calls at all to actions such as ec2:*.
func (l *awsEnv) throttleActions(pattern string) {
	l.Helper()
	l.putControl("throttle", `{"`+pattern+`":{"rate":0,"burst":0}}`)
}

// advanceClock moves the time.
func (l *awsEnv) advanceClock(d time.Duration) {
	l.Helper()
	l.putControl("time", `{"advance":"`+d.String()+`"}`)
}

// decodeControl decodes what a control shows.
func decodeControl[T any](l *awsEnv, path string) T {
	l.Helper()
	var out T
	if err := json.Unmarshal([]byte(l.callControlAPI(http.MethodGet, path, "")), &out); err != nil {
		l.Fatalf("%s: %v", path, err)
	}
	return out
}

// countCalls counts the requests of the controller, retries of the SDK included.
func (l *awsEnv) countCalls(service wire.Service, action string) int {
	return len(l.callsOf(service, action))
}

func (l *awsEnv) callsOf(service wire.Service, action string) []awsemu.Call {
	return slices.DeleteFunc(l.emu.Calls(service, action), func(c awsemu.Call) bool { return c.Role != controllerRole })
}

// afterCalls returns a channel that is closed when the controller has made a number of successful calls.
func (l *awsEnv) afterCalls(action string, count int) <-chan struct{} {
	done := make(chan struct{})
	var mu sync.Mutex
	stop := l.emu.Watch(func(c awsemu.Call) {
		mu.Lock()
		defer mu.Unlock()
		if c.Role != controllerRole || string(c.Service)+":"+c.Action != action || c.Code != "" {
			return
		}
		if count--; count == 0 {
			close(done)
		}
	})
	l.Cleanup(stop)
	return done
}

// wait fails the test when something does not happen.
func (l *awsEnv) wait(what string, done <-chan struct{}) {
	l.Helper()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		l.Fatalf("%s did not happen", what)
	}
}

// subnet is the subnet that the fixture has in a zone.
func (l *awsEnv) subnet(zone string) string {
	l.Helper()
	for id, s := range decodeControl[map[string]awsemu.Subnet](l, "subnets") {
		if s.Zone == zone && s.Tags["Name"] == cluster+"-private-"+zone {
			return id
		}
	}
	l.Fatalf("no subnet in %s", zone)
	return ""
}

// securityGroupIDs are the security groups of the fixture.
func (l *awsEnv) securityGroupIDs() []string {
	l.Helper()
	return slices.Sorted(maps.Keys(decodeControl[map[string]awsemu.SecurityGroup](l, "groups")))
}

// imageOfParameter is the image that a public parameter names.
func (l *awsEnv) imageOfParameter(path string) string {
	l.Helper()
	p, found := decodeControl[map[string]awsemu.Parameter](l, "parameters")[path]
	if !found {
		l.Fatalf("no parameter %s", path)
	}
	return p.Value
}

const al2023 = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"

// newClass is a node class as the guides write it.
func (l *awsEnv) newClass(changes ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	discovery := awsv1.Tags{"karpenter.sh/discovery": cluster}
	c := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: types.UID("class-uid"), Generation: 1},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       nodeRole,
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
		},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// ownedTags are the tags of an instance of ours.
func ownedTags() map[string]string {
	return map[string]string{
		"kubernetes.io/cluster/" + cluster: "owned", "eks:eks-cluster-name": cluster,
		"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
	}
}

// launched launches instances past the controller and returns their ids.
func (l *awsEnv) launchInstances(count int32, market ec2types.DefaultTargetCapacityType, tags map[string]string, changes ...func(*ec2types.RequestLaunchTemplateData)) []string {
	l.Helper()
	client, name := ec2.NewFromConfig(l.person), fmt.Sprintf("person-%d", len(l.emu.Calls(wire.EC2, "CreateLaunchTemplate")))
	l.ensureProfile("person")
	data := &ec2types.RequestLaunchTemplateData{
		ImageId: new(l.imageOfParameter(al2023)), IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: new("person")},
		SecurityGroupIds: l.securityGroupIDs(),
	}
	for _, change := range changes {
		change(data)
	}
	if _, err := client.CreateLaunchTemplate(l.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data}); err != nil {
		l.Fatal(err)
	}
	spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeInstance}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: &key, Value: new(tags[key])})
	}
	out, err := client.CreateFleet(l.Context(), &ec2.CreateFleetInput{
		Type:                        ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &count, DefaultTargetCapacityType: market},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: new("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: new(l.subnet(zoneA))}},
		}},
		TagSpecifications: []ec2types.TagSpecification{spec},
	})
	if err != nil {
		l.Fatal(err)
	}
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	if len(ids) != int(count) {
		l.Fatalf("launched %v, want %d instances: %+v", ids, count, out.Errors)
	}
	return ids
}

// ensureProfile makes an instance profile with the role of nodes.
func (l *awsEnv) ensureProfile(name string) {
	l.Helper()
	client := iam.NewFromConfig(l.person)
	if _, err := client.GetInstanceProfile(l.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: &name}); err == nil {
		return
	}
	if _, err := client.CreateInstanceProfile(l.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name}); err != nil {
		l.Fatal(err)
	}
	if _, err := client.AddRoleToInstanceProfile(l.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: new(nodeRole)}); err != nil {
		l.Fatal(err)
	}
}

// instanceByID is an instance as the emulator has it.
func (l *awsEnv) instanceByID(id string) awsemu.Instance {
	l.Helper()
	return decodeControl[awsemu.Instance](l, "instances/"+id)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
