package awsemu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// cloud is an emulator on loopback with a frozen clock, and a client configuration for it.
type cloud struct {
	*Emulator
	url string
	cfg aws.Config
}

func startCloud(t *testing.T) *cloud {
	t.Helper()
	e := New(Options{Clock: NewClock(time.Now, 0), Seed: 1, Fixture: testFixture()})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return &cloud{Emulator: e, url: server.URL, cfg: aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
		RetryMaxAttempts: 1, HTTPClient: server.Client(),
	}}
}

func testFixture() Fixture {
	return Fixture{
		Account: "111122223333", Region: "eu-west-1", Cluster: "sandbox", ClusterEndpoint: "https://127.0.0.1:6443", ClusterCA: "Y2E=",
		KubernetesVersion: "1.34", Queue: "Karpenter-sandbox", TokenKey: &tokenKey().PublicKey,
		Zones: []Zone{{Name: "eu-west-1a", ID: "euw1-az1"}, {Name: "eu-west-1b", ID: "euw1-az2"}, {Name: "eu-west-1c", ID: "euw1-az3"}},
	}
}

// callControlAPI calls the control API and decodes the response; it returns the status.
func (c *cloud) callControlAPI(t *testing.T, method, path, body string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+controlPrefix+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return res.StatusCode
}

// set calls a control that must succeed.
func (c *cloud) set(t *testing.T, method, path, body string) {
	t.Helper()
	if status := c.callControlAPI(t, method, path, body, nil); status != http.StatusOK {
		t.Fatalf("%s %s = %d, want 200", method, path, status)
	}
}

// wantCode fails unless the error has the code, and the status if that is not 0.
func wantCode(t *testing.T, err error, code string, status int) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Fatalf("err = %v, want code %s", err, code)
	}
	var response *smithyhttp.ResponseError
	if status != 0 && (!errors.As(err, &response) || response.HTTPStatusCode() != status) {
		t.Fatalf("err = %v, want status %d", err, status)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runLocked runs with the emulator locked, as operations do.
func (c *cloud) runLocked(run func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run(c.clock.Now())
}

func TestModelSurvivesJSONAndIsDeterministic(t *testing.T) {
	t.Parallel()
	wall := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	render := func(e *Emulator) string {
		text, err := json.Marshal([]any{e.model.IAM, e.model.SQS, e.model.SSM, e.model.EKS})
		check(t, err)
		return string(text)
	}
	build := func() *Emulator {
		e := New(Options{Clock: NewClock(wall, 0), Seed: 7, Fixture: testFixture()})
		e.send(wall(), "Karpenter-sandbox", "hello")
		e.issueCredentials(e.controllerRole(), "session", time.Hour)
		return e
	}
	first, second := build(), build()
	if diff := cmp.Diff(render(first), render(second)); diff != "" {
		t.Errorf("same seed, other model (-first +second):\n%s", diff)
	}
	text, err := json.Marshal(first.model)
	check(t, err)
	second.model = &Model{}
	check(t, json.Unmarshal(text, second.model))
	if diff := cmp.Diff(render(first), render(second)); diff != "" {
		t.Errorf("JSON changed the model (-want +got):\n%s", diff)
	}
}

func TestMalformedRequestsGetAResponseAndNeverPanic(t *testing.T) {
	t.Parallel()
	services := []wire.Service{wire.IAM, wire.STS, wire.SQS, wire.SSM, wire.Pricing, wire.EKS, wire.Events, wire.ZonalShift}
	states := []string{
		`{}`,
		`{"iam":{"roles":{"r":{}},"profiles":{"p":{"role":"gone"}}},"sqs":{"queues":{"Karpenter-sandbox":null,"q":{"attributes":{"MessageRetentionPeriod":"x"}}},"rules":{"r":null,"s":{}}},"ssm":{},"eks":{"cluster":{"name":"sandbox","accessEntries":["r",{},{"principal":"arn"}]}}}`,
	}
	bodies := []string{``, `null`, `[]`, `{}`, `"x"`, `{"a":`, `{"QueueUrl":"://"}`, `{"QueueUrl":"http://h/111122223333/Karpenter-sandbox"}`, `{"QueueUrl":"http://h/111122223333/q","Entries":[{}],"AttributeNames":["All"],"MessageBody":"b","Names":[""],"Name":"arn:","Rule":"s","NextToken":"-1","Filters":[{}],"ServiceCode":"AmazonEC2","Path":"/","Targets":[{}],"EventPattern":"{}"}`}
	forms := []string{``, `InstanceProfileName=p&RoleName=r&MaxItems=-1`, `InstanceProfileName=p&RoleName=r&Marker=zzz&Tags.member.1.Key=&PathPrefix=x`, `RoleArn=x&RoleSessionName=s&WebIdentityToken=a.b.c`, `%zz`}
	for _, state := range states {
		e := New(Options{Clock: NewClock(time.Now, 0), Fixture: testFixture()})
		for _, service := range services {
			for action := range e.operations[service] {
				e.model = &Model{}
				check(t, json.Unmarshal([]byte(state), e.model))
				for _, body := range slices.Concat(bodies, forms) {
					e.ServeHTTP(httptest.NewRecorder(), junkRequest(t.Context(), service, action, body))
				}
			}
		}
		for name, handlers := range e.controls {
			for method := range handlers {
				for _, body := range []string{``, `null`, `[]`, `{}`, `{"x":null}`, `[null]`, `{"active":[{}]}`} {
					if name != "reset" && name != "time" {
						e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, controlPrefix+name, strings.NewReader(body)))
					}
				}
			}
		}
	}
}

func junkRequest(ctx context.Context, service wire.Service, action, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AK/20300101/eu-west-1/"+string(service)+"/aws4_request")
	switch service {
	case wire.IAM, wire.STS:
		r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("Action="+action+"&"+body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AK/20300101/eu-west-1/"+string(service)+"/aws4_request")
	case wire.EKS:
		return clusterRequest(ctx, action, body)
	case wire.ZonalShift:
		return httptest.NewRequestWithContext(ctx, http.MethodGet, "/managedresources/x", http.NoBody)
	default:
		r.Header.Set("X-Amz-Target", "X."+action)
	}
	return r
}

func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx := t.Context()
	_, _ = sqs.NewFromConfig(c.cfg).ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String("http://h/1/none"), MaxNumberOfMessages: 10})
	_, _ = iam.NewFromConfig(c.cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole")})
	_, _ = eks.NewFromConfig(c.cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
	for query, want := range map[string]Call{
		"service=sqs&action=ReceiveMessage":  {Parameters: map[string]string{"QueueUrl": "http://h/1/none", "MaxNumberOfMessages": "10"}, Code: "QueueDoesNotExist"},
		"service=iam":                        {Parameters: map[string]string{"Action": "GetRole", "RoleName": "KarpenterNodeRole", "Version": "2010-05-08"}},
		"action=DescribeCluster&service=eks": {Path: "/clusters/sandbox"},
	} {
		var calls []Call
		c.callControlAPI(t, http.MethodGet, "calls?"+query, "", &calls)
		if len(calls) != 1 {
			t.Fatalf("%s: %d calls", query, len(calls))
		}
		got := calls[0]
		if diff := cmp.Diff(want.Parameters, got.Parameters); diff != "" || got.Code != want.Code || got.Path != want.Path {
			t.Errorf("%s: %+v (-want +got):\n%s", query, got, diff)
		}
		if !got.Done || got.Key != "AKIDTEST" || got.Invocation == "" || !strings.HasPrefix(got.Attempt, "attempt=1") || got.Time.IsZero() {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

// clusterRequest is the REST request of an operation of EKS, with junk for a body.
func clusterRequest(ctx context.Context, action, body string) *http.Request {
	method, path, kind := http.MethodGet, "/clusters/sandbox", "/access-entries"
	if strings.Contains(action, "PodIdentity") {
		kind = "/pod-identity-associations"
	}
	switch {
	case action == "ListClusters":
		path = "/clusters"
	case strings.HasPrefix(action, "List"):
		path += kind + "?maxResults=x&nextToken=%00"
	case strings.HasPrefix(action, "Create"):
		method, path = http.MethodPost, path+kind
	case strings.HasPrefix(action, "Update"):
		method, path = http.MethodPost, path+kind+"/arn"
	case strings.HasPrefix(action, "Delete"):
		method, path = http.MethodDelete, path+kind+"/arn"
	case action == "DescribeAccessEntry":
		path += "/access-entries/arn:aws:iam::1:role%2Fx"
	case action == "DescribePodIdentityAssociation":
		path += kind + "/a-1"
	}
	return httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
}

func TestThrottlingAndFaultsHaveTheCodesOfTheService(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"sqs:GetQueueUrl": func() error {
			_, err := sqs.NewFromConfig(c.cfg).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})
			return err
		},
		"iam:GetRole": func() error {
			_, err := iam.NewFromConfig(c.cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole")})
			return err
		},
		"ssm:GetParameter": func() error {
			_, err := ssm.NewFromConfig(c.cfg).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("x")})
			return err
		},
		"pricing:GetProducts": func() error {
			_, err := pricing.NewFromConfig(c.cfg).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2")})
			return err
		},
		"eks:DescribeCluster": func() error {
			_, err := eks.NewFromConfig(c.cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
			return err
		},
	}
	codes := map[string]string{
		"sqs:GetQueueUrl": "RequestThrottled", "iam:GetRole": "Throttling", "ssm:GetParameter": "ThrottlingException",
		"pricing:GetProducts": "ThrottlingException", "eks:DescribeCluster": "ThrottlingException",
	}
	c.set(t, http.MethodPut, "throttle", `{"*":{"rate":0,"burst":0}}`)
	for action, run := range calls {
		wantCode(t, run(), codes[action], 400)
	}
	c.runLocked(func(time.Time) { c.rules = newRules() })
	for action, run := range calls {
		c.set(t, http.MethodPost, "faults", `{"action":"`+action+`","code":"ServiceFailure","status":500,"count":1}`)
		wantCode(t, run(), "ServiceFailure", 500)
	}
}
