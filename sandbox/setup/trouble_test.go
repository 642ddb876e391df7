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
			_ = syscall.Kill(-group, syscall.SIGKILL) // it has not ended: it waits for an answer
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

// stride is after how many calls that write the script is killed: here and there, and after each in the deep tests.
func stride() int {
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
	empty := a.made(t)
	want := wanted(t, iam.PodIdentityTrust())
	interruptions := 0
	for a.killAfter(t, stride(), everything("create")...) {
		interruptions++
	}
	if diff := cmp.Diff(want, a.made(t)); diff != "" {
		t.Errorf("what create made, interrupted %d times (-want +got):\n%s", interruptions, diff)
	}
	a.succeed(t, "status")
	for a.killAfter(t, stride(), "delete") {
		interruptions++
	}
	empty.Roles[spotRole] = want.Roles[spotRole]
	if diff := cmp.Diff(empty, a.made(t)); diff != "" {
		t.Errorf("what delete left, interrupted %d times (-want +got):\n%s", interruptions, diff)
	}
	if interruptions < 4 {
		t.Errorf("interrupted only %d times", interruptions)
	}
}

// fault has calls of an action fail.
func (a *emulated) fault(t *testing.T, f awsemu.Fault) {
	t.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	a.control(t, http.MethodPost, "faults", string(body))
}

// control steers the emulator.
func (a *emulated) control(t *testing.T, method, path, body string) {
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
	a.fault(t, awsemu.Fault{Action: "iam:CreatePolicy", Code: "AccessDenied", Message: denied, Status: http.StatusForbidden, Count: 1})
	for action, f := range map[string]awsemu.Fault{
		"iam:AttachRolePolicy":             {Code: "NoSuchEntity", Message: "The role cannot be found."},
		"iam:AddRoleToInstanceProfile":     {Code: "NoSuchEntity", Message: "The role cannot be found."},
		"eks:CreateAccessEntry":            {Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."},
		"eks:CreatePodIdentityAssociation": {Code: "InvalidParameterException", Message: "Role provided in the request does not exist."},
		"sqs:CreateQueue":                  {Code: "QueueDeletedRecently", Message: "You must wait 60 seconds after deleting a queue before you can create another with the same name."},
	} {
		f.Action, f.Count = action, 2
		a.fault(t, f)
	}
	a.refuse(t, everything("create"), "error: aws iam create-policy: "+denied, "Allow the action iam:CreatePolicy to arn:aws:iam::"+account, "run the same command again")
	a.succeed(t, everything("create")...).says(t, "waiting  aws sqs create-queue: You must wait 60 seconds", "created  queue "+queue)
	if diff := cmp.Diff(wanted(t, iam.PodIdentityTrust()), a.made(t)); diff != "" {
		t.Errorf("what create made (-want +got):\n%s", diff)
	}
	a.fault(t, awsemu.Fault{Action: "eks:CreateAccessEntry", Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."})
	a.aws(t, "eks", "delete-access-entry", "--cluster-name", cluster, "--principal-arn", roleARN(nodeRole))
	a.refuse(t, everything("create"), "error: aws eks create-access-entry: InvalidParameterException: The specified principalArn is invalid")
}

// What was changed by hand, or is of an older release, is brought back; IAM keeps five versions of a policy.
func TestUpdates(t *testing.T) {
	t.Parallel()
	a := created(t)
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
	a.refuse(t, everything("status"), "wrong    policy KarpenterControllerNodeLifecyclePolicy-sandbox: not as create makes it", "wrong    trust of the role of the controller", "wrong    queue",
		"wrong    rule Karpenter-sandbox-RebalanceRule", "missing  target Karpenter-sandbox of the rule Karpenter-sandbox-SpotInterruptionRule", "wrong    pod identity association", "6 of these are missing or wrong").untouched(t)
	a.succeed(t, everything("create")...).says(t, "deleted  version v1 of the policy KarpenterControllerNodeLifecyclePolicy-sandbox", "updated  policy KarpenterControllerNodeLifecyclePolicy-sandbox")
	if diff := cmp.Diff(wanted(t, iam.PodIdentityTrust()), a.made(t)); diff != "" {
		t.Errorf("what create made (-want +got):\n%s", diff)
	}
	m := a.model(t)
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
	a.succeed(t, "delete").says(t, "deleted  version v5", "deleted  policy KarpenterControllerNodeLifecyclePolicy-sandbox")
}

// Delete takes nothing away from nodes that run, and finds what was made for a cluster that is gone.
func TestDeleteWhileNodesRun(t *testing.T) {
	t.Parallel()
	a := created(t)
	image := strings.Trim(strings.TrimSpace(a.aws(t, "ec2", "describe-images", "--filters", "Name=architecture,Values=x86_64", "--query", "Images[0].ImageId")), `"`)
	tags := "ResourceType=instance,Tags=[{Key=kubernetes.io/cluster/sandbox,Value=owned},{Key=karpenter.sh/nodepool,Value=default}]"
	id := strings.Trim(strings.TrimSpace(a.aws(t, "ec2", "run-instances", "--image-id", image, "--instance-type", "m5.large", "--tag-specifications", tags, "--query", "Instances[0].InstanceId")), `"`)
	a.refuse(t, []string{"delete"}, "instances of NodePools of the cluster sandbox run: "+id, "kubectl delete nodepools --all").untouched(t)
	a.aws(t, "ec2", "terminate-instances", "--instance-ids", id)
	// A profile that a class made, with the role of the nodes in it.
	a.aws(t, "iam", "create-instance-profile", "--instance-profile-name", "sandbox_123")
	a.aws(t, "iam", "add-role-to-instance-profile", "--instance-profile-name", "sandbox_123", "--role-name", nodeRole)
	a.refuse(t, []string{"delete"}, "wrong    role of the nodes "+nodeRole+": kept, since instance profiles hold it: sandbox_123", "kubectl delete ec2nodeclasses --all")
	a.aws(t, "iam", "remove-role-from-instance-profile", "--instance-profile-name", "sandbox_123", "--role-name", nodeRole)
	a.succeed(t, "delete").says(t, "deleted  role of the nodes "+nodeRole)
}

func TestWrongCluster(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for _, command := range []string{"create", "status"} {
		a.with("CLUSTER_NAME=sandbax").refuse(t, []string{command}, `CLUSTER_NAME: there is no EKS cluster "sandbax" in eu-west-1`, "There are: sandbox", "Correct CLUSTER_NAME or AWS_DEFAULT_REGION").untouched(t)
	}
	a.set(t, func(m *awsemu.Model) { m.EKS.Cluster.AuthMode = "CONFIG_MAP" })
	a.refuse(t, []string{"create"}, "authentication mode CONFIG_MAP", "--no-access-entry").untouched(t)
}

// The provider of a cluster's tokens stays while another role trusts it, and goes although the cluster is gone.
func TestS_123_Provider(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.succeed(t, "create", "--auth", "irsa", "--no-access-entry")
	other := a.copyOf(t)
	trust := strings.ReplaceAll(filled(t, iam.IRSATrust()), "kube-system:karpenter", "kube-system:ebs-csi")
	other.aws(t, "iam", "create-role", "--role-name", "ebs-csi", "--assume-role-policy-document", trust)
	other.succeed(t, "delete").says(t, "kept     OIDC provider "+issuer+": other roles trust it: ebs-csi")
	a.set(t, func(m *awsemu.Model) { m.EKS.Cluster.Name = "renamed" })
	a.succeed(t, "delete").says(t, "note     cluster sandbox: not in eu-west-1", "deleted  OIDC provider "+issuer, "deleted  role of the controller "+controllerRole)
	if got := a.made(t); len(got.Roles)+len(got.Policies)+len(got.Providers) > 0 {
		t.Errorf("left: %+v", got)
	}
}
