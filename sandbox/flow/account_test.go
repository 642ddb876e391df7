package flow_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What an installation has in its account.

// S-028, S-138: the queue of the cluster's name keeps messages for five minutes, hides one for a minute and encrypts them. It is read as
// an operator who checks an installation reads it.
func TestS_028_TheQueueOfAnInstallation(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	client := sqs.NewFromConfig(f.awsConfigOfUser())
	queue, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: new(world.Queue)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: queue.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"MessageRetentionPeriod": "300", "VisibilityTimeout": "60", "SqsManagedSseEnabled": "true"} {
		if got := out.Attributes[name]; got != want {
			t.Errorf("%s of the queue is %q, want %q", name, got, want)
		}
	}
}

const spotRole = "AWSServiceRoleForEC2Spot"

// S-139, FM F05: the account has no role for spot instances. The event names it and the command that makes it,
// and on-demand is used meanwhile. Once an operator ran the command, spot is used; that the role is there then
// is no error.
func TestS_139_TheRoleForSpot(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive) // others want spot
	f.pool("", onlyTypes("c5a.large"), withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand))
	f.classReady()
	var roles []string
	f.decode(f.callControlAPI(http.MethodGet, "roles", ""), &roles)
	if !slices.Contains(roles, spotRole) {
		t.Fatalf("the account has %v", roles)
	}
	put := func(roles []string) {
		body, err := json.Marshal(roles)
		if err != nil {
			t.Fatal(err)
		}
		f.callControlAPI(http.MethodPut, "roles", string(body))
	}
	put(slices.DeleteFunc(slices.Clone(roles), func(name string) bool { return name == spotRole }))
	f.Cleanup(func() { put(roles) })
	f.Cleanup(f.killController) // what it knows of spot is not true for the next test

	f.deploy("first", 1)
	f.event("NodeClaim", f.name, "SpotServiceLinkedRoleMissing", spotRole+"; run `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`")
	f.waitForRunningPods("first", 1)
	first := f.ready(1)[0]
	if got := first.Labels[karpv1.LabelCapacityType]; got != karpv1.CapacityTypeOnDemand {
		t.Errorf("the pod runs on %s", got)
	}

	client := iam.NewFromConfig(f.awsConfigOfUser())
	role := &iam.CreateServiceLinkedRoleInput{AWSServiceName: new("spot.amazonaws.com")}
	if _, err := client.CreateServiceLinkedRole(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateServiceLinkedRole(t.Context(), role); err == nil || !strings.Contains(err.Error(), "has been taken") {
		t.Errorf("the role was made twice: %v", err)
	}
	f.killController() // else spot is not requested again for three minutes
	f.deploy("second", 1)
	f.waitForRunningPods("second", 1)
	for _, c := range f.ready(2) {
		if c.Name != first.Name && c.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot {
			t.Errorf("%s is %s", c.Name, c.Labels[karpv1.LabelCapacityType])
		}
	}
}
