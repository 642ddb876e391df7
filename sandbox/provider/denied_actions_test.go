package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	guide "github.com/dovetail-sh/dovetail/iam"
	"github.com/dovetail-sh/dovetail/internal/aws/eks"
	"github.com/dovetail-sh/dovetail/internal/aws/interrupt"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// S-129: every action of the policies is needed, and a user who does not grant it learns which one it is, in the way that
// docs/reference/iam.md says. It is not parallel: cases that start a process set the environment.
func TestS_129_EveryActionIsMissedByName(t *testing.T) {
	cases := withoutAction()
	for _, use := range guide.Uses() {
		miss, known := cases[use.Action]
		if !known {
			t.Errorf("nothing shows what is seen without %s", use.Action)
			continue
		}
		delete(cases, use.Action)
		t.Run(use.Action, func(t *testing.T) {
			if miss.class == nil {
				miss.class = func(*awsv1.EC2NodeClass) {}
			}
			s := &observations{classEnv: newEstate(t, miss.class)}
			if miss.before != nil {
				miss.before(s)
			}
			s.revokeAction(use.Action)
			miss.then(s)
			seen := s.allObservations()
			if !strings.Contains(seen, use.Action) {
				t.Errorf("%s is not named:\n%s", use.Action, seen)
			}
			for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(use.Without, -1) {
				if !strings.Contains(seen, word[1]) && !slices.Contains(miss.flow, word[1]) {
					t.Errorf("the reference says that %s is seen:\n%s", word[1], seen)
				}
			}
		})
	}
	for action := range cases {
		t.Errorf("%s is not in the policies", action)
	}
}

// miss is how an action is missed.
type miss struct {
	class  func(*awsv1.EC2NodeClass)
	before func(*observations) // while the policies are whole
	then   func(*observations) // without the action
	flow   []string            // words that only a whole controller shows: TestS_129_AnInstanceThatMayNotBeTerminated
}

// observations are what people can see: conditions, events, and errors, which are logged.
type observations struct {
	*classEnv
	mu    sync.Mutex
	lines []string
}

func (s *observations) recordObservation(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, a...))
}

func (s *observations) allObservations() string {
	s.classEnv.mu.Lock()
	s.recordObservation("events %s", strings.Join(s.texts, "; "))
	s.classEnv.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// revokeAction takes an action out of the policies of the controller, and leaves all else as it is.
func (s *observations) revokeAction(action string) {
	s.Helper()
	client := iam.NewFromConfig(s.person)
	values := guide.Values{Partition: "aws", Region: region, AccountID: "111122223333", ClusterName: cluster, NodeRoleName: nodeRole, QueueName: queue}
	found := false
	for _, d := range guide.Controller() {
		text, err := guide.Fill(d, values)
		if err != nil {
			s.Fatal(err)
		}
		less, had := withoutActionIn(s.T, text, action)
		if !had {
			continue
		}
		found = true
		arn := "arn:aws:iam::111122223333:policy/" + d.Name + "-" + cluster
		if less == "" {
			if _, err := client.DetachRolePolicy(s.Context(), &iam.DetachRolePolicyInput{RoleName: new(controllerRole), PolicyArn: &arn}); err != nil {
				s.Fatal(err)
			}
			continue
		}
		if _, err := client.CreatePolicyVersion(s.Context(), &iam.CreatePolicyVersionInput{PolicyArn: &arn, PolicyDocument: &less, SetAsDefault: true}); err != nil {
			s.Fatal(err)
		}
	}
	if !found {
		s.Fatalf("no policy has %s", action)
	}
}

// withoutActionIn is a document without an action; empty if nothing is left of it.
func withoutActionIn(t *testing.T, document, action string) (less string, had bool) {
	t.Helper()
	var d struct {
		Version   string
		Statement []map[string]any
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		t.Fatal(err)
	}
	var left []map[string]any
	for _, statement := range d.Statement {
		var actions []any
		switch v := statement["Action"].(type) {
		case string:
			actions = []any{v}
		case []any:
			actions = v
		}
		kept := slices.DeleteFunc(slices.Clone(actions), func(a any) bool { return a == action })
		had = had || len(kept) < len(actions)
		if len(kept) > 0 {
			statement["Action"] = kept
			left = append(left, statement)
		}
	}
	if len(left) == 0 {
		return "", had
	}
	d.Statement = left
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), had
}

// reconcileClass reconciles the class some times, and notes the errors, which a manager logs.
func (s *observations) reconcileClass() {
	s.Helper()
	for range 3 {
		s.advanceClock(2 * time.Minute)
		if _, err := s.classes.Reconcile(s.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}); err != nil {
			s.recordObservation("log: Reconciler error: %v", err)
		}
	}
	for _, c := range s.storedClass().Status.Conditions {
		s.recordObservation("EC2NodeClass %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
}

func (s *observations) recordFailure(what string, err error) {
	s.Helper()
	if err == nil {
		s.Errorf("%s works", what)
		return
	}
	s.recordObservation("log: %s: %v", what, err)
	if e := asError(err); e != nil {
		s.recordObservation("reason %s", e.Reason)
	}
}

// deleteClass deletes the class as a user does.
func (s *observations) deleteClass() {
	s.Helper()
	if err := s.kube.Delete(s.Context(), s.storedClass()); err != nil {
		s.Fatal(err)
	}
	s.reconcileClass()
	if finalizers := s.storedClass().Finalizers; !slices.Contains(finalizers, awsv1.FinalizerTermination) {
		s.Errorf("the class goes, with finalizers %v", finalizers)
	}
}

// recordStart notes why a process does not start.
func (s *observations) recordStart(changes ...func(*settings.AWS)) {
	s.Helper()
	if _, err := s.startWith(changes...); err != nil {
		s.recordObservation("the controller ends: %v", err)
		return
	}
	s.Error("the controller starts")
}

// apiServer is a client of an API server that only returns its version.
func (s *observations) apiServer() discovery.ServerVersionInterface {
	s.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"34"}`))
	}))
	s.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		s.Fatal(err)
	}
	return client
}

// waitForLog runs something that never ends until a line of its log has the text.
func (s *observations) waitForLog(text string, start func(context.Context) error) {
	s.Helper()
	said := &lines{}
	ctx, cancel := context.WithCancel(log.IntoContext(s.Context(), said.newLogger()))
	var running sync.WaitGroup
	running.Go(func() { _ = start(ctx) })
	s.waitUntil("a line about "+text, func() bool { return said.count(text) > 0 })
	cancel()
	running.Wait()
	for _, line := range said.list {
		s.recordObservation("log: %s", line)
	}
}

// withoutAction says for each action how it is missed.
func withoutAction() map[string]miss {
	reconciled, deleted := miss{then: (*observations).reconcileClass}, miss{before: func(s *observations) { s.reconcile() }, then: (*observations).deleteClass}
	list := map[string]miss{
		"ec2:CreateFleet": {then: func(s *observations) {
			s.reconcileClass()
			_, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand")))
			s.recordFailure("launch", err)
		}},
		"ec2:DeleteLaunchTemplate": {
			before: func(s *observations) {
				s.reconcile()
				s.mustLaunchClaim(claim("one", needsOf("m5.large", "on-demand")))
			},
			then: (*observations).deleteClass,
		},
		"iam:PassRole": {then: func(s *observations) {
			s.reconcileClass()
			s.ensureProfile("handmade")
			s.editClass(func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", new("handmade") })
			s.reconcileClass()
		}},
		"iam:RemoveRoleFromInstanceProfile": deleted,
		"iam:DeleteInstanceProfile":         deleted,
		"iam:ListInstanceProfiles": {before: deleted.before, then: func(s *observations) {
			s.recordFailure("collect instance profiles", s.newProfiles().Collect(s.Context(), s.kube))
			s.deleteClass()
		}},
		"iam:GetInstanceProfile": {before: deleted.before, then: func(s *observations) {
			s.advanceClock(time.Hour) // what is known of a profile is old by then
			s.reconcileClass()
			s.deleteClass()
		}},
		"eks:DescribeCluster": {then: func(s *observations) {
			s.recordStart()
			s.restartWith(func(o *eks.Options) {
				o.Settings.ClusterEndpoint, o.Settings.EKSControlPlane, o.Server = "https://127.0.0.1:6443", false, s.apiServer()
			})
			s.classes.Cluster = s.facts
			s.reconcileClass()
		}},
		"ec2:DescribeCapacityReservations": {class: func(c *awsv1.EC2NodeClass) {
			c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"team": "a"}}}
		}, then: (*observations).reconcileClass},
		"ec2:DescribePlacementGroups": {class: func(c *awsv1.EC2NodeClass) {
			c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "sandbox"}
		}, then: (*observations).reconcileClass},
		"ec2:DescribeLaunchTemplates": {then: func(s *observations) {
			s.waitForLog("load launch templates", s.Start)
			s.reconcileClass()
		}},
		"ec2:DescribeInstanceStatus": {then: func(s *observations) {
			statuses := &interrupt.Statuses{EC2: ec2.NewFromConfig(s.sdk), Actor: s.newActor(registryOf()), Metrics: s.metrics, Now: s.currentTime}
			s.waitForLog("DescribeInstanceStatus", statuses.Start)
		}},
		"ssm:GetParameter": {then: func(s *observations) {
			s.classes.Resolve = s.newDiscoverer() // of a process that knows nothing yet
			s.reconcileClass()
		}},
		"arc-zonal-shift:GetManagedResource": {then: func(s *observations) { s.recordStart(func(a *settings.AWS) { a.ZonalShift = true }) }},
	}
	for _, action := range []string{
		"ec2:RunInstances", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile",
		"ec2:DescribeImages", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets",
	} {
		list[action] = reconciled
	}
	for _, action := range []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"} {
		list[action] = miss{
			before: func(s *observations) { s.post("message", `{"queue":"`+queue+`","body":"{}"}`) },
			then: func(s *observations) {
				q := &interrupt.Queue{Name: queue, SQS: sqs.NewFromConfig(s.sdk), Actor: s.newActor(registryOf()), Instances: s.newInventory(), Cluster: cluster, Metrics: s.metrics, Now: s.currentTime}
				s.waitForLog("AccessDenied", q.Start)
			},
		}
	}
	for _, action := range []string{"ec2:DescribeSpotPriceHistory", "pricing:GetProducts"} {
		list[action] = miss{then: func(s *observations) { s.recordFailure("prices", s.prices(false).Refresh(s.Context())) }}
	}
	for _, action := range []string{"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes"} {
		list[action] = miss{then: func(s *observations) { s.recordStart() }}
	}
	maps.Copy(list, withoutActionOnInstances())
	return list
}

// withoutActionOnInstances is withoutAction for what is done with an instance that runs.
func withoutActionOnInstances() map[string]miss {
	bought := func(then func(s *observations, c cloud.Provider, one *karpv1.NodeClaim), flow ...string) miss {
		var c cloud.Provider
		var one *karpv1.NodeClaim
		return miss{
			before: func(s *observations) {
				c, one = s.ready(), s.createClaim(claim("one", needsOf("m5.large", "on-demand")))
				one = s.writeLaunchResult(one, mustLaunch(s.T, c, one))
				s.advanceClock(time.Minute)
			},
			then: func(s *observations) { then(s, c, one) },
			flow: flow,
		}
	}
	return map[string]miss{
		"ec2:TerminateInstances": bought(func(s *observations, c cloud.Provider, one *karpv1.NodeClaim) {
			s.recordFailure("terminate", c.Terminate(s.Context(), cloud.ID(one.Status.ProviderID)))
		}, "InstanceTerminating=Unknown", "Unauthorized"),
		"ec2:RebootInstances": bought(func(s *observations, c cloud.Provider, one *karpv1.NodeClaim) {
			s.recordFailure("reboot", c.Reboot(s.Context(), one, "op"))
		}),
		"ec2:DescribeInstances": bought(func(s *observations, c cloud.Provider, one *karpv1.NodeClaim) {
			_, err := c.List(s.Context())
			s.recordFailure("list instances", err)
			_, err = c.Find(s.Context(), cloud.ID(one.Status.ProviderID))
			s.recordFailure("find an instance", err)
		}),
	}
}
