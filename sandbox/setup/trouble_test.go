package setup

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/iam"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// killAfter runs the script and kills it when so many of its calls that write are done; of the last one it never learns. It returns
// false if the script ended by itself.
func (a *emulated) killAfter(t *testing.T, calls int, args ...string) bool {
	t.Helper()
	var mu sync.Mutex // so that no call comes before the process is known
	mu.Lock()
	group, left := 0, calls
	stop := a.Watch(func(c awsemu.Call) {
		mu.Lock()
		defer mu.Unlock()
		if isRead(c) || c.Code != "" {
			return
		}
		if left--; left == 0 {
			_ = syscall.Kill(-group, syscall.SIGKILL) // it has not ended: it waits for a response
		}
	})
	defer stop()
	cmd, output := a.start(t, args...)
	group = cmd.Process.Pid
	mu.Unlock()
	err := cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	if killed := left <= 0; killed || err == nil {
		return killed
	}
	t.Fatalf("%s fails after an interruption:\n%s", strings.Join(args, " "), output)
	return false
}

// killStride is after how many calls that write the script is killed: here and there, and after each in the deep tests.
func killStride() int {
	if os.Getenv("DOVETAIL_DEEP") != "" {
		return 1
	}
	return 11
}

// Killed, started again and killed again, until it is through.
func TestS_126_Interrupted(t *testing.T) {
	t.Parallel()
	needAWS(t, true)
	a := newAccount(t)
	empty := a.createdResources(t)
	want := expectedResources(t, iam.PodIdentityTrust())
	interruptions := 0
	for a.killAfter(t, killStride(), allCreateFlags("create")...) {
		interruptions++
	}
	if diff := cmp.Diff(want, a.createdResources(t)); diff != "" {
		t.Errorf("what create made, interrupted %d times (-want +got):\n%s", interruptions, diff)
	}
	a.runSuccessfully(t, "status")
	for a.killAfter(t, killStride(), "delete") {
		interruptions++
	}
	empty.Roles[spotRole] = want.Roles[spotRole]
	if diff := cmp.Diff(empty, a.createdResources(t)); diff != "" {
		t.Errorf("what delete left, interrupted %d times (-want +got):\n%s", interruptions, diff)
	}
	if interruptions < 4 {
		t.Errorf("interrupted only %d times", interruptions)
	}
}

// injectFault has calls of an action fail.
func (a *emulated) injectFault(t *testing.T, f awsemu.Fault) {
	t.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	a.callControlAPI(t, http.MethodPost, "faults", string(body))
}

// callControlAPI steers the emulator.
func (a *emulated) callControlAPI(t *testing.T, method, path, body string) {
	t.Helper()
	address := ""
	for _, v := range a.env {
		if value, found := strings.CutPrefix(v, "AWS_ENDPOINT_URL="); found {
			address = value
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address+"/_dovetail/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s", method, path, res.Status)
	}
}

// A call that is denied, and AWS that does not know yet what was made a moment ago: with the rights, the same command goes on.
func TestDeniedAndSlow(t *testing.T) {
	t.Parallel()
	needAWS(t, true)
	a := newAccount(t)
	const denied = "User: nobody is not authorized to perform: iam:CreatePolicy"
	a.injectFault(t, awsemu.Fault{Action: "iam:CreatePolicy", Code: "AccessDenied", Message: denied, Status: http.StatusForbidden, Count: 1})
	for action, f := range map[string]awsemu.Fault{
		"iam:AttachRolePolicy":             {Code: "NoSuchEntity", Message: "The role cannot be found."},
		"iam:AddRoleToInstanceProfile":     {Code: "NoSuchEntity", Message: "The role cannot be found."},
		"eks:CreateAccessEntry":            {Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."},
		"eks:CreatePodIdentityAssociation": {Code: "InvalidParameterException", Message: "Role provided in the request does not exist."},
		"sqs:CreateQueue":                  {Code: "QueueDeletedRecently", Message: "You must wait 60 seconds after deleting a queue before you can create another with the same name."},
	} {
		f.Action, f.Count = action, 2
		a.injectFault(t, f)
	}
	a.runExpectingError(t, allCreateFlags("create"), "error: aws iam create-policy: "+denied, "Allow the action iam:CreatePolicy to arn:aws:iam::"+account, "run the same command again")
	a.runSuccessfully(t, allCreateFlags("create")...).checkOutput(t, "waiting  aws sqs create-queue: You must wait 60 seconds", "created  queue "+queue)
	if diff := cmp.Diff(expectedResources(t, iam.PodIdentityTrust()), a.createdResources(t)); diff != "" {
		t.Errorf("what create made (-want +got):\n%s", diff)
	}
	a.injectFault(t, awsemu.Fault{Action: "eks:CreateAccessEntry", Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."})
	a.runAWS(t, "eks", "delete-access-entry", "--cluster-name", cluster, "--principal-arn", roleARN(nodeRole))
	a.runExpectingError(t, allCreateFlags("create"), "error: aws eks create-access-entry: InvalidParameterException: The specified principalArn is invalid")
}

// What was changed by hand, or is of an older release, is brought back; IAM keeps five versions of a policy.
func TestUpdates(t *testing.T) {
	t.Parallel()
	a := accountAfterCreate(t)
	arn := policyARN("KarpenterControllerNodeLifecyclePolicy-" + cluster)
	a.set(t, func(m *awsemu.Model) {
		p := m.IAM.Policies[arn]
		p.Versions = nil
		for n := range 5 {
			p.Versions = append(p.Versions, awsemu.PolicyVersion{ID: fmt.Sprintf("v%d", n+1), Document: `{"Statement":[]}`, Created: p.Created.Add(time.Duration(n) * time.Hour)})
		}
		p.Default, p.Document = "v2", p.Versions[1].Document
		m.IAM.Policies[arn] = p
		role := m.IAM.Roles[controllerRole]
		role.Trust = m.IAM.Roles[nodeRole].Trust
		m.IAM.Roles[controllerRole] = role
		m.SQS.Queues[queue].Attributes["MessageRetentionPeriod"] = "1209600"
		m.SQS.Rules["Karpenter-sandbox-RebalanceRule"].Disabled = true
		delete(m.SQS.Rules["Karpenter-sandbox-SpotInterruptionRule"].Targets, "KarpenterInterruptionQueueTarget")
		for id, one := range m.EKS.Associations {
			one.Role = roleARN(nodeRole)
			m.EKS.Associations[id] = one
		}
	})
	a.runExpectingError(t, allCreateFlags("status"), "wrong    policy KarpenterControllerNodeLifecyclePolicy-sandbox: not as create makes it", "wrong    trust of the role of the controller", "wrong    queue",
		"wrong    rule Karpenter-sandbox-RebalanceRule", "missing  target Karpenter-sandbox of the rule Karpenter-sandbox-SpotInterruptionRule", "wrong    pod identity association", "6 of these are missing or wrong").checkNoWrites(t)
	a.runSuccessfully(t, allCreateFlags("create")...).checkOutput(t, "deleted  version v1 of the policy KarpenterControllerNodeLifecyclePolicy-sandbox", "updated  policy KarpenterControllerNodeLifecyclePolicy-sandbox")
	if diff := cmp.Diff(expectedResources(t, iam.PodIdentityTrust()), a.createdResources(t)); diff != "" {
		t.Errorf("what create made (-want +got):\n%s", diff)
	}
	m := a.accountModel(t)
	if m.SQS.Rules["Karpenter-sandbox-RebalanceRule"].Disabled || m.IAM.Policies[arn].Default != "v6" {
		t.Errorf("rule %+v, policy %+v", m.SQS.Rules["Karpenter-sandbox-RebalanceRule"], m.IAM.Policies[arn])
	}
	var versions []string
	for _, v := range m.IAM.Policies[arn].Versions {
		versions = append(versions, v.ID)
	}
	if !slices.Equal(versions, []string{"v2", "v3", "v4", "v5", "v6"}) {
		t.Errorf("versions %v", versions)
	}
	a.runSuccessfully(t, "delete").checkOutput(t, "deleted  version v5", "deleted  policy KarpenterControllerNodeLifecyclePolicy-sandbox")
}

// Delete takes nothing away from nodes that run, and finds what was made for a cluster that is gone.
func TestDeleteWhileNodesRun(t *testing.T) {
	t.Parallel()
	a := accountAfterCreate(t)
	image := strings.Trim(strings.TrimSpace(a.runAWS(t, "ec2", "describe-images", "--filters", "Name=architecture,Values=x86_64", "--query", "Images[0].ImageId")), `"`)
	tags := "ResourceType=instance,Tags=[{Key=kubernetes.io/cluster/sandbox,Value=owned},{Key=karpenter.sh/nodepool,Value=default}]"
	id := strings.Trim(strings.TrimSpace(a.runAWS(t, "ec2", "run-instances", "--image-id", image, "--instance-type", "m5.large", "--tag-specifications", tags, "--query", "Instances[0].InstanceId")), `"`)
	a.runExpectingError(t, []string{"delete"}, "instances of NodePools of the cluster sandbox run: "+id, "kubectl delete nodepools --all").checkNoWrites(t)
	a.runAWS(t, "ec2", "terminate-instances", "--instance-ids", id)
	// A profile that a class made, with the role of the nodes in it.
	a.runAWS(t, "iam", "create-instance-profile", "--instance-profile-name", "sandbox_123")
	a.runAWS(t, "iam", "add-role-to-instance-profile", "--instance-profile-name", "sandbox_123", "--role-name", nodeRole)
	a.runExpectingError(t, []string{"delete"}, "wrong    role of the nodes "+nodeRole+": kept, since instance profiles hold it: sandbox_123", "kubectl delete ec2nodeclasses --all")
	a.runAWS(t, "iam", "remove-role-from-instance-profile", "--instance-profile-name", "sandbox_123", "--role-name", nodeRole)
	a.runSuccessfully(t, "delete").checkOutput(t, "deleted  role of the nodes "+nodeRole)
}

func TestWrongCluster(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for _, command := range []string{"create", "status"} {
		a.withVariables("CLUSTER_NAME=sandbax").runExpectingError(t, []string{command}, `CLUSTER_NAME: there is no EKS cluster "sandbax" in eu-west-1`, "There are: sandbox", "Correct CLUSTER_NAME or AWS_DEFAULT_REGION").checkNoWrites(t)
	}
	a.set(t, func(m *awsemu.Model) { m.EKS.Cluster.AuthMode = "CONFIG_MAP" })
	a.runExpectingError(t, []string{"create"}, "authentication mode CONFIG_MAP", "--no-access-entry").checkNoWrites(t)
}

// The provider of a cluster's tokens stays while another role trusts it, and goes although the cluster is gone.
func TestS_123_Provider(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.runSuccessfully(t, "create", "--auth", "irsa", "--no-access-entry")
	other := a.copyOf(t)
	trust := strings.ReplaceAll(fillDocument(t, iam.IRSATrust()), "kube-system:karpenter", "kube-system:ebs-csi")
	other.runAWS(t, "iam", "create-role", "--role-name", "ebs-csi", "--assume-role-policy-document", trust)
	other.runSuccessfully(t, "delete").checkOutput(t, "kept     OIDC provider "+issuer+": other roles trust it: ebs-csi")
	a.set(t, func(m *awsemu.Model) { m.EKS.Cluster.Name = "renamed" })
	a.runSuccessfully(t, "delete").checkOutput(t, "note     cluster sandbox: not in eu-west-1", "deleted  OIDC provider "+issuer, "deleted  role of the controller "+controllerRole)
	if got := a.createdResources(t); len(got.Roles)+len(got.Policies)+len(got.Providers) > 0 {
		t.Errorf("left: %+v", got)
	}
}
