package trouble_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// quickly is how soon a controller that cannot run has to end, on a machine that is busy with other tests.
const quickly = 3 * time.Minute

// Rows "controller exits at start" and "STS timeout at start", and what else people get wrong first: the
// process ends by itself, not with success, and its last words name the fix.
func TestExitsAtStart(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	const unreachable = "http://127.0.0.1:1"
	for name, tc := range map[string]struct {
		flags, env, without []string
		want                []string
		code                int
	}{
		"a flag with a typo":     {flags: []string{"--batch-max-duraton=5s"}, want: []string{"unknown flag: --batch-max-duraton", "did you mean --batch-max-duration?"}, code: 2},
		"a value without a unit": {env: []string{"BATCH_MAX_DURATION=5"}, want: []string{"BATCH_MAX_DURATION", "such as 10s"}, code: 2},
		"no cluster name":        {without: []string{"CLUSTER_NAME"}, want: []string{"--cluster-name, CLUSTER_NAME: not given"}, code: 2},
		"no kubeconfig":          {env: []string{"KUBECONFIG=/does/not/exist"}, want: []string{"the file that KUBECONFIG names does not exist: /does/not/exist"}, code: 1},
		"no region":              {without: []string{"AWS_REGION", "AWS_DEFAULT_REGION"}, want: []string{"set AWS_REGION"}, code: 1},
		"EC2 cannot be reached":  {env: []string{"AWS_ENDPOINT_URL_EC2=" + unreachable}, want: []string{"EC2 in eu-west-1 cannot be used", "check the network", "connection refused"}, code: 1},
		"no credentials":         {without: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, want: []string{"the controller has no credentials for AWS", "aws eks create-pod-identity-association --cluster-name sandbox", "eks.amazonaws.com/role-arn"}, code: 1},
		"EKS cannot be reached":  {without: []string{"CLUSTER_ENDPOINT"}, env: []string{"AWS_ENDPOINT_URL_EKS=" + unreachable}, want: []string{`endpoint of cluster "sandbox"`, "set cluster-endpoint"}, code: 1},
		"EKS knows no such name": {without: []string{"CLUSTER_ENDPOINT"}, env: []string{"CLUSTER_NAME=nope"}, want: []string{`endpoint of cluster "nope"`, "No cluster found for name: nope"}, code: 1},
		"STS cannot be reached": {
			without: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, env: []string{"AWS_ENDPOINT_URL_STS=" + unreachable, "AWS_ROLE_ARN=arn:aws:iam::111122223333:role/c", "AWS_WEB_IDENTITY_TOKEN_FILE=" + token},
			want: []string{"web identity", "dnsPolicy=Default"}, code: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkExit(t, tc.flags, tc.env, tc.without, tc.code, tc.want...)
		})
	}
}

// Credentials that EC2 does not know. Not parallel: the response of EC2 is the same for all.
func TestWrongCredentials(t *testing.T) {
	s := beginCase(t)
	for code, want := range map[string]string{
		"AuthFailure":           "does not accept the credentials of the controller; check the role annotation or pod identity association",
		"UnauthorizedOperation": "compare its policies with the installation guide",
	} {
		end := s.injectFault("faults", `{"action":"ec2:DescribeInstanceTypes","code":"`+code+`"}`)
		checkExit(t, nil, nil, nil, 1, want)
		end()
	}
}

// checkExit runs a controller that has to end at once.
func checkExit(t *testing.T, flags, env, without []string, code int, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quickly)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"controller", "--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for _, v := range append(server.World.Environment(), env...) {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(without, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, _ := cmd.CombinedOutput()
	if ctx.Err() != nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("code %d after at most %s, want %d:\n%s", cmd.ProcessState.ExitCode(), quickly, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("%q is not said:\n%s", text, out)
		}
	}
}

// Row "pricing timeout in private subnet". Not parallel: the controller starts anew.
func TestPricesOutOfReach(t *testing.T) {
	s := beginCase(t)
	end := s.injectFault("faults", `{"action":"pricing:GetProducts","drop":"before"}`)
	controller.Kill()
	s.waitForLog("Reconciler error", "on-demand prices of instance types", "set isolated-vpc")
	end()
	s.applyClass()
	s.ready() // it works all the same, with the prices it has
}

// Row "interruptions not handled" (S-184): every failure names the queue and the permission. Not parallel
// with tests that disturb AWS as well.
func TestQueueOutOfReach(t *testing.T) {
	s := beginCase(t)
	const works = "watching interruption queue"
	before := len(s.matchingLogLines(works))
	end := s.injectFault("permissions", `{"role":"KarpenterControllerRole-sandbox","action":"sqs:*"}`)
	controller.Kill()
	s.waitForLog(`"ERROR"`, "reading the interruption queue", "Karpenter-sandbox", "sqs:GetQueueUrl")
	end()
	s.waitUntil(func() string {
		if len(s.matchingLogLines(works)) == before {
			return "the queue is not watched again"
		}
		return ""
	})
	faulty := s.injectFault("faults", `{"action":"sqs:GetQueueUrl","code":"AWS.SimpleQueueService.NonExistentQueue"}`)
	controller.Kill()
	s.waitForLog(`"ERROR"`, `there is no queue \"Karpenter-sandbox\" in this account and region: create it, or clear the setting interruption-queue`)
	faulty()
}

// Row "debug logging": the controller of these tests runs at level debug.
func TestDebugLogging(t *testing.T) {
	t.Parallel()
	beginCase(t).waitForLog(`"level":"DEBUG"`, `"caller":"`)
}
