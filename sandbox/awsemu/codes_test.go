package awsemu

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Every code that can be injected comes with the status that its service sends, and the SDK decodes it.
func TestInjectedCodesHaveTheirStatus(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*cloud) error{
		"ec2:RunInstances": func(c *cloud) error {
			return errorOf(ec2.NewFromConfig(c.cfg).RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}))
		},
		"ec2:DescribeSubnets": func(c *cloud) error {
			return errorOf(ec2.NewFromConfig(c.cfg).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))
		},
		"iam:CreateInstanceProfile": func(c *cloud) error {
			return errorOf(iam.NewFromConfig(c.cfg).CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("p")}))
		},
		"sts:GetCallerIdentity": func(c *cloud) error {
			return errorOf(sts.NewFromConfig(c.cfg).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))
		},
		"sqs:GetQueueUrl": func(c *cloud) error {
			return errorOf(sqs.NewFromConfig(c.cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")}))
		},
		"ssm:GetParameter": func(c *cloud) error {
			return errorOf(ssm.NewFromConfig(c.cfg).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("p")}))
		},
		"pricing:GetProducts": func(c *cloud) error {
			return errorOf(pricing.NewFromConfig(c.cfg).GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2")}))
		},
		"eks:DescribeCluster": func(c *cloud) error {
			return errorOf(eks.NewFromConfig(c.cfg).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("sandbox")}))
		},
		"arc-zonal-shift:GetManagedResource": func(c *cloud) error {
			return errorOf(arczonalshift.NewFromConfig(c.cfg).GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String("arn")}))
		},
	}
	for _, tc := range []struct {
		action, code string
		status       int
		reported     string // by the SDK, where that differs
	}{
		{"ec2:DescribeSubnets", "DryRunOperation", 412, ""},
		{"ec2:DescribeSubnets", "UnauthorizedOperation", 403, ""},
		{"ec2:DescribeSubnets", "RequestLimitExceeded", 503, ""},
		{"ec2:DescribeSubnets", "InternalError", 500, ""},
		{"ec2:DescribeSubnets", "Unavailable", 503, ""},
		{"ec2:DescribeSubnets", "AnythingElse", 400, ""},
		{"ec2:RunInstances", "InsufficientInstanceCapacity", 500, ""},
		{"iam:CreateInstanceProfile", "NoSuchEntity", 404, ""},
		{"iam:CreateInstanceProfile", "EntityAlreadyExists", 409, ""},
		{"iam:CreateInstanceProfile", "DeleteConflict", 409, ""},
		{"iam:CreateInstanceProfile", "LimitExceeded", 409, ""},
		{"iam:CreateInstanceProfile", "ConcurrentModification", 409, ""},
		{"iam:CreateInstanceProfile", "AccessDenied", 403, ""},
		{"iam:CreateInstanceProfile", "Throttling", 400, ""},
		{"iam:CreateInstanceProfile", "ValidationError", 400, ""},
		{"iam:CreateInstanceProfile", "InvalidInput", 400, ""},
		{"iam:CreateInstanceProfile", "ServiceFailure", 500, ""},
		{"sts:GetCallerIdentity", "AccessDenied", 403, ""},
		{"sqs:GetQueueUrl", "QueueDoesNotExist", 400, "AWS.SimpleQueueService.NonExistentQueue"},
		{"sqs:GetQueueUrl", "RequestThrottled", 400, ""},
		{"sqs:GetQueueUrl", "ReceiptHandleIsInvalid", 400, ""},
		{"sqs:GetQueueUrl", "AccessDeniedException", 400, ""},
		{"sqs:GetQueueUrl", "OverLimit", 400, ""},
		{"ssm:GetParameter", "ParameterNotFound", 400, ""},
		{"ssm:GetParameter", "AccessDeniedException", 400, ""},
		{"pricing:GetProducts", "AccessDeniedException", 400, ""},
		{"eks:DescribeCluster", "ResourceNotFoundException", 404, ""},
		{"eks:DescribeCluster", "AccessDeniedException", 403, ""},
		{"eks:DescribeCluster", "ServerException", 500, ""},
		{"arc-zonal-shift:GetManagedResource", "ResourceNotFoundException", 404, ""},
		{"arc-zonal-shift:GetManagedResource", "AccessDeniedException", 403, ""},
	} {
		t.Run(tc.action+" "+tc.code, func(t *testing.T) {
			t.Parallel()
			c := startCloud(t)
			c.set(t, http.MethodPut, "faults", `[{"action":"`+tc.action+`","code":"`+tc.code+`","message":"injected"}]`)
			err := calls[tc.action](c)
			if tc.reported == "" {
				tc.reported = tc.code
			}
			wantCode(t, err, tc.reported, tc.status)
			if !strings.Contains(err.Error(), "injected") {
				t.Errorf("err = %v, want its message", err)
			}
		})
	}
}

func TestFaultsAreReplaced(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.set(t, http.MethodPut, "faults", `[{"action":"ssm:*","code":"A"},null,{"action":"sqs:*","code":"B"}]`)
	c.set(t, http.MethodPut, "faults", `[{"action":"ssm:*","code":"C"}]`)
	wantCode(t, errorOf(ssm.NewFromConfig(c.cfg).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("p")})), "C", 400)
	check(t, errorOf(sqs.NewFromConfig(c.cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})))
	for _, body := range []string{`[{"code":"A"}]`, `[{"action":"*","drop":"later"}]`, `{}`} {
		if status := c.callControlAPI(t, http.MethodPut, "faults", body, nil); status != http.StatusBadRequest {
			t.Errorf("%s is accepted", body)
		}
	}
}

// A fault with a text is for calls that hold it, and can be removed by itself.
func TestFaultsByText(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	get := func(name string) error {
		return errorOf(ssm.NewFromConfig(c.cfg).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(name)}))
	}
	role := func(name string) error {
		return errorOf(iam.NewFromConfig(c.cfg).GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String(name)}))
	}
	c.set(t, http.MethodPost, "faults", `{"action":"ssm:*","text":"mine","code":"A"}`)
	c.set(t, http.MethodPost, "faults", `{"action":"iam:*","text":"mine","code":"B"}`)
	wantCode(t, get("of-mine"), "A", 400)
	wantCode(t, get("other"), "ParameterNotFound", 400)
	wantCode(t, role("of-mine"), "B", 400)
	wantCode(t, role("other"), "NoSuchEntity", 404)
	c.set(t, http.MethodDelete, "faults", `{"action":"ssm:*","text":"mine"}`)
	wantCode(t, get("of-mine"), "ParameterNotFound", 400)
	wantCode(t, role("of-mine"), "B", 400)
	c.set(t, http.MethodDelete, "faults", "")
	wantCode(t, role("of-mine"), "NoSuchEntity", 404)
}

// What breaks on the way to and from the service, as the SDK sees it without its retries.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"reset before": `{"action":"iam:*","drop":"before"}`,
		"reset after":  `{"action":"iam:*","drop":"after"}`,
		"half a body":  `{"action":"iam:*","truncate":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCloud(t)
			c.set(t, http.MethodPost, "faults", fault)
			_, err := iam.NewFromConfig(c.cfg).CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("p")})
			if _, isAPI := asAPIError(err); err == nil || isAPI {
				t.Errorf("err = %v, want one of the connection", err)
			}
			made := false
			c.runLocked(func(time.Time) { _, made = c.iamState().Profiles["p"] })
			if want := name != "reset before"; made != want {
				t.Errorf("the profile was made: %v, want %v", made, want)
			}
		})
	}
	c := startCloud(t)
	c.set(t, http.MethodPost, "faults", `{"action":"iam:GetRole","latency":"50ms"}`)
	began := time.Now()
	check(t, errorOf(iam.NewFromConfig(c.cfg).GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole")})))
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}

func TestRealisticThrottling(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.sdk.Retryer, env.sdk.RetryMaxAttempts = nil, 1
	client := ec2.NewFromConfig(env.sdk, func(o *ec2.Options) { o.RetryMaxAttempts = 1 })
	env.callControlAPI(http.MethodPut, "throttle", `{"profile":"realistic"}`)
	ctx, id := t.Context(), []string{"i-0"}
	for name, tc := range map[string]struct {
		burst, perSecond int
		run              func() error
	}{
		"describe":    {100, 20, func() error { return errorOf(client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})) }},
		"mutating":    {50, 5, func() error { return errorOf(client.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{})) }},
		"CreateFleet": {50, 5, func() error { return errorOf(client.CreateFleet(ctx, fleetInput(spot, 1, "m5.large/a"))) }},
		"RunInstances": {5, 2, func() error {
			return errorOf(client.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}))
		}},
		"Terminate": {100, 5, func() error {
			return errorOf(client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: id}))
		}},
		"CreateTags": {100, 10, func() error {
			return errorOf(client.CreateTags(ctx, &ec2.CreateTagsInput{Resources: id, Tags: []types.Tag{{Key: aws.String("k")}}}))
		}},
	} {
		passes := func() (n int) {
			for apiCode(tc.run()) != "RequestLimitExceeded" {
				n++
			}
			return n
		}
		if got := passes(); got != tc.burst {
			t.Errorf("%s: %d at once, want %d", name, got, tc.burst)
		}
		env.advanceClock(time.Second)
		if got := passes(); got != tc.perSecond {
			t.Errorf("%s: %d in a second, want %d", name, got, tc.perSecond)
		}
	}
	env.callControlAPI(http.MethodPut, "throttle", `{"profile":"off"}`)
	check(t, errorOf(client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})))
	if status, response := env.tryControl(http.MethodPut, "throttle", `{"profile":"harsh"}`); status != http.StatusBadRequest || !strings.Contains(response, "want off or realistic") {
		t.Errorf("an unknown profile: %d %s", status, response)
	}
}

// Pools can fail with any code, so that every reaction of a controller can be seen.
func TestPoolsFailWithAnyCode(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.callControlAPI(http.MethodPost, "ice", `{"instanceType":"m5.large","zone":"eu-west-1a","code":"PendingVerification","message":"Your account is currently being verified."}`)
	in := fleetInput(onDemand, 1, "m5.large/a", "m5.large/a", "m5.large/b")
	out := env.createFleet(in)
	if got := fleetSummary(out); !slices.Equal(got, []string{"m5.large/b=1", "PendingVerification m5.large/a"}) || *out.Errors[0].ErrorMessage != "Your account is currently being verified." {
		t.Errorf("fleet %v, errors %+v", got, out.Errors)
	}
}

// An instance names its profile with the path that IAM gave it.
func TestInstancesNameTheirProfile(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	client, name := iam.NewFromConfig(env.sdk), "sandbox_1"
	made, err := client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Path: aws.String("/karpenter/eu-west-1/sandbox/uid/")})
	check(t, err)
	check(t, errorOf(client.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: aws.String("KarpenterNodeRole-sandbox")})))
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) { d.IamInstanceProfile.Name = &name })
	id := env.launch(onDemand, "m5.large/a")
	if got := env.describe(id).IamInstanceProfile; *got.Arn != *made.InstanceProfile.Arn || *got.Id != *made.InstanceProfile.InstanceProfileId {
		t.Errorf("profile %s %s, want %s", *got.Arn, *got.Id, *made.InstanceProfile.Arn)
	}
	check(t, errorOf(client.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: aws.String("KarpenterNodeRole-sandbox")})))
	check(t, errorOf(client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})))
	if got := env.describe(id).IamInstanceProfile; !strings.HasSuffix(*got.Arn, "/"+name) || len(*got.Id) != 20 {
		t.Errorf("after the profile is gone: %s %s", *got.Arn, *got.Id)
	}
}

func TestTooManyMessagesInFlight(t *testing.T) {
	t.Parallel()
	q := startQueue(t)
	q.set(t, http.MethodPut, "queues", `{"Karpenter-sandbox":{"inFlight":2}}`)
	for n := range 3 {
		check(t, errorOf(q.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.queue, MessageBody: aws.String(fmt.Sprint(n))})))
	}
	receive := func() error {
		return errorOf(q.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.queue, VisibilityTimeout: 20}))
	}
	check(t, errors.Join(receive(), receive()))
	wantCode(t, receive(), "OverLimit", 400)
	q.set(t, http.MethodPut, "time", `{"advance":"21s"}`)
	check(t, receive())
}
