package flow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// S-129: the role of the controller may not terminate an instance. The claim stays with it and names the action, and goes
// once that is allowed. What is seen without the other actions is in sandbox/provider.
func TestS_129_AnInstanceThatMayNotBeTerminated(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.markDisturbed()
	allow := f.denyAction("ec2:TerminateInstances", "arn:aws:ec2:"+world.Region+":"+world.Account+":instance/"+instanceOf(&claim))
	f.scale(d, 0)
	f.remove(&claim)
	said := f.waitForCondition(&claim, karpv1.ConditionInstanceTerminating, metav1.ConditionUnknown, "Unauthorized")
	if !strings.Contains(said.Message, "ec2:TerminateInstances") {
		t.Errorf("the claim says %q", said.Message)
	}
	allow()
	calmed()
	f.waitUntilGone(&claim, later)
}

// allowAction gives the controller's role a right beside those of the guide, until the test ends: that of a user whose
// installation has other names.
func (f *flow) allowAction(action, resource string) {
	f.Helper()
	f.putRoleStatement("with-"+f.name, "Allow", action, resource)
}

// denyAction adds a statement to the policies of the controller's role that denies it an action on a resource, until the test
// ends or it is taken back.
func (f *flow) denyAction(action, resource string) (takeBack func()) {
	f.Helper()
	return f.putRoleStatement("without-"+f.name, "Deny", action, resource)
}

// putRoleStatement is an inline policy of the controller's role.
func (f *flow) putRoleStatement(policy, effect, action, resource string) (takeBack func()) {
	f.Helper()
	client, role, name := iam.NewFromConfig(f.awsConfigOfUser()), new(world.ControllerRole), &policy
	if _, err := client.PutRolePolicy(f.Context(), &iam.PutRolePolicyInput{
		RoleName: role, PolicyName: name,
		PolicyDocument: new(fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":%q,"Action":%q,"Resource":%q}]}`, effect, action, resource)),
	}); err != nil {
		f.Fatal(err)
	}
	takeBack = func() {
		if _, err := client.DeleteRolePolicy(context.WithoutCancel(f.Context()), &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: name}); err != nil && !strings.Contains(err.Error(), "NoSuchEntity") {
			f.Error(err)
		}
	}
	f.Cleanup(takeBack)
	return takeBack
}
