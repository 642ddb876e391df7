package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// ec2Server responds to requests to EC2 with the next of its responses, the last of them forever.
type ec2Server struct {
	mu        sync.Mutex
	responses []int // HTTP status codes
	agents    []string
}

func (s *ec2Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents = append(s.agents, r.UserAgent())
	state := s.responses[0]
	if len(s.responses) > 1 {
		s.responses = s.responses[1:]
	}
	w.WriteHeader(state)
	switch state {
	case http.StatusOK:
		fmt.Fprint(w, `<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId></DescribeInstanceTypesResponse>`)
	case http.StatusPreconditionFailed:
		fmt.Fprint(w, `<Response><Errors><Error><Code>DryRunOperation</Code><Message>ok</Message></Error></Errors><RequestID>r</RequestID></Response>`)
	default:
		fmt.Fprint(w, `<Response><Errors><Error><Code>Unavailable</Code><Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>`)
	}
}

// connect makes clients as the controller does, against a server. It sets the environment, so that tests
// with it cannot run at the same time.
func connect(t *testing.T, server *ec2Server) (*clients, *world) {
	t.Helper()
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": web.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(key, value)
	}
	w := newWorld(t)
	c, err := newClients(t.Context(), "v1.2.3", w.metrics)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func TestRequestsAndAttemptsAreCounted(t *testing.T) {
	server := &ec2Server{responses: []int{503, 200}}
	c, w := connect(t, server)
	if _, err := c.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]float64{
		"aws_sdk_go_request_total":                    {"DescribeInstanceTypes EC2 200": 1},
		"aws_sdk_go_request_attempt_total":            {"DescribeInstanceTypes EC2 200": 1, "DescribeInstanceTypes EC2 503": 1},
		"aws_sdk_go_request_retry_count":              {"DescribeInstanceTypes EC2": 1},
		"aws_sdk_go_request_duration_seconds":         {"DescribeInstanceTypes EC2": 1},
		"aws_sdk_go_request_attempt_duration_seconds": {"DescribeInstanceTypes EC2": 2},
	} {
		if diff := cmp.Diff(want, w.series(t, name)); diff != "" {
			t.Error(name, diff)
		}
	}
	for _, agent := range server.agents {
		if !strings.Contains(agent, "karpenter.sh-v1.2.3") {
			t.Errorf("user agent %q", agent)
		}
	}
}

func TestTheConnectionIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		response int
		fails    bool
	}{"a dry run that would work": {412, false}, "a response to no dry run": {200, true}, "no service": {400, true}} {
		t.Run(name, func(t *testing.T) {
			c, _ := connect(t, &ec2Server{responses: []int{tc.response}})
			if err := checkReachable(t.Context(), c.ec2, c.region, "sandbox"); (err != nil) != tc.fails {
				t.Error(err)
			}
		})
	}
}

type refusing struct{ err error }

func (r refusing) DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return nil, r.err
}

func TestTheFixIsNamed(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"compare its policies":            code("UnauthorizedOperation"),
		"check the network":               errors.New("dial tcp: no route to host"),
		"does not accept the credentials": code("ExpiredToken"),
		"check the role annotation":       code("AuthFailure"),
		"no credentials for AWS":          errors.New("operation error STS: AssumeRoleWithWebIdentity, dial tcp: lookup sts.eu-west-1.amazonaws.com: i/o timeout"),
	} {
		if got := checkReachable(t.Context(), refusing{err}, "eu-west-1", "sandbox"); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%v does not say %q", got, want)
		}
	}
}

// FM C19: the DNS of the cluster runs on nodes that are not there yet. What to set is said, with the name that was looked up.
func TestFM_C19_NoNameIsResolved(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("operation error EC2: DescribeInstanceTypes: %w", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "ec2.eu-west-1.amazonaws.com", IsNotFound: true}})
	got := fmt.Sprint(checkReachable(t.Context(), refusing{err}, "eu-west-1", "sandbox"))
	for _, want := range []string{"the name ec2.eu-west-1.amazonaws.com cannot be resolved", "dnsPolicy=Default"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s does not say %q", got, want)
		}
	}
}

type neverResponds struct{}

func (neverResponds) DescribeInstanceTypes(ctx context.Context, _ *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An EC2 that never responds does not keep the controller from ending, which says what to check.
func TestAConnectionWithoutResponseTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := checkReachable(t.Context(), neverResponds{}, "eu-west-1", "sandbox"); err == nil || !strings.Contains(err.Error(), "check the network") {
			t.Error(err)
		}
		if waited := time.Since(start); waited > time.Minute {
			t.Errorf("given up after %s", waited)
		}
	})
}

func TestARegionIsNeeded(t *testing.T) {
	for key, value := range map[string]string{
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(key, value)
	}
	if _, err := newClients(t.Context(), "dev", metric.New(prometheus.NewRegistry())); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Error(err)
	}
}

func TestPricesAreRequestedInTheirOwnRegion(t *testing.T) {
	c, _ := connect(t, &ec2Server{responses: []int{200}})
	if got := c.pricing.Options().Region; got != "eu-central-1" {
		t.Error(got)
	}
	if got := c.ec2.Options().Region; got != "eu-west-1" {
		t.Error(got)
	}
}
