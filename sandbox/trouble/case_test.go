package trouble_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// How long a test waits, and how often it looks.
const (
	patience = 3 * time.Minute
	glance   = 2 * time.Second // a look is a process of kubectl, which takes a fifth of a second of a core
)

// problemCase is one test: a namespace, and a class and a pool of the same name.
type problemCase struct {
	*testing.T

	name, namespace string
}

// beginCase makes the namespace. What the test made goes at the end.
func beginCase(t *testing.T) *problemCase {
	t.Helper()
	s := &problemCase{T: t, namespace: server.Namespace(t)}
	s.name = "t" + strings.Trim(s.namespace[max(0, len(s.namespace)-25):], "-")
	t.Cleanup(s.cleanUpCase)
	return s
}

func (s *problemCase) cleanUpCase() {
	if s.Failed() {
		s.Logf("log:\n%s", strings.Join(s.matchingLogLines(s.name), "\n"))
	}
	ctx := context.WithoutCancel(s.Context())
	gone := func(obj client.Object) {
		if err := kube.Delete(ctx, obj); err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	}
	server.World.Nodes.Faults().Clear(s.name)
	if err := kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.GracePeriodSeconds(0)); err != nil {
		s.Error(err)
	}
	gone(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	gone(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
}

// applyClass applies a node class like that of the seeds, changed by pairs of old and new text.
func (s *problemCase) applyClass(change ...string) {
	s.Helper()
	s.apply(s.classText(change...))
}

func (s *problemCase) classText(change ...string) string {
	return strings.NewReplacer(change...).Replace(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: ` + s.name + `}
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
`)
}

// pool applies a NodePool of some instance types, changed like a class.
func (s *problemCase) pool(types string, change ...string) {
	s.Helper()
	s.apply(strings.NewReplacer(change...).Replace(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + s.name + `}
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [` + types + `]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: ` + s.name + `}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`))
}

// pod applies a pod for the pool of the test.
func (s *problemCase) pod(name string, change ...string) {
	s.Helper()
	s.apply(strings.NewReplacer(change...).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: ` + s.namespace + `, annotations: {}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {karpenter.sh/nodepool: ` + s.name + `}
  containers: [{name: c, image: pause, resources: {requests: {cpu: 1}}}]
`))
}

// apply is kubectl apply, and must work.
func (s *problemCase) apply(manifest string) {
	s.Helper()
	if out, err := s.tryApply(manifest); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
}

func (s *problemCase) tryApply(manifest string) (string, error) {
	return s.run(manifest, "apply", "-f", "-")
}

// runKubectl runs the command of a row and returns what it shows.
func (s *problemCase) runKubectl(args ...string) string {
	s.Helper()
	out, err := s.run("", args...)
	if err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *problemCase) run(input string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+server.World.ControlPlane.Kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// waitForOutput runs a command until it shows every text, and fails with what it showed last.
func (s *problemCase) waitForOutput(command string, texts ...string) string {
	s.Helper()
	out := ""
	s.waitUntil(func() string {
		out, _ = s.run("", strings.Fields(command)...)
		plain := strings.Join(strings.Fields(out), " ") // describe aligns and wraps
		for _, text := range texts {
			if !strings.Contains(plain, text) {
				return fmt.Sprintf("kubectl %s does not show %q:\n%s", command, text, out)
			}
		}
		return ""
	})
	return out
}

// waitUntil looks until nothing is missing.
func (s *problemCase) waitUntil(missing func() string) {
	s.Helper()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		what := missing()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			s.Fatal(what)
		case <-s.Context().Done():
			s.Fatal(what)
		}
	}
}

// ready waits until the class can be used.
func (s *problemCase) ready() {
	s.Helper()
	s.waitForOutput("get ec2nodeclass "+s.name, " True ")
}

// waitForRunningPod waits until a pod runs.
func (s *problemCase) waitForRunningPod(pod string) {
	s.Helper()
	s.waitForOutput("get pod -n "+s.namespace+" "+pod, "Running")
}

// claim waits for a NodeClaim of the pool and returns its name.
func (s *problemCase) claim() string {
	s.Helper()
	name := ""
	s.waitUntil(func() string {
		list := &karpv1.NodeClaimList{}
		if err := kube.List(s.Context(), list, client.MatchingLabels{karpv1.LabelNodePool: s.name}); err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return "no NodeClaim of " + s.name
		}
		name = list.Items[0].Name
		return ""
	})
	return name
}

// nodes lets something go wrong on the nodes of the pool.
func (s *problemCase) nodes(fault fakenode.Fault) {
	server.World.Nodes.Faults().Set(s.name, fakenode.Selector{NodePool: s.name}, fault)
}

// injectFault is sandbox fault: it steers the emulated account until the returned function is called, or the test ends.
func (s *problemCase) injectFault(what, body string) (end func()) {
	s.Helper()
	if _, err := server.Control(s.Context(), http.MethodPost, what, body); err != nil {
		s.Fatal(err)
	}
	end = func() {
		if _, err := server.Control(context.WithoutCancel(s.Context()), http.MethodDelete, what, ""); err != nil {
			s.Error(err)
		}
	}
	s.Cleanup(end)
	return end
}

// adminConfig is the configuration of an administrator of the account.
func adminConfig() aws.Config {
	return aws.Config{Region: world.Region, BaseEndpoint: &server.World.AWSEndpoint, Credentials: credentials.NewStaticCredentialsProvider("AKIAPERSON", "secret", "")}
}

// matchingLogLines returns the lines of the controller that contain all texts.
func (s *problemCase) matchingLogLines(texts ...string) []string {
	text, err := os.ReadFile(controller.Log)
	if err != nil {
		s.Error(err)
	}
	lines := strings.Split(string(text), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return line == "" || slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// waitForLog waits for a line with all texts.
func (s *problemCase) waitForLog(texts ...string) {
	s.Helper()
	s.waitUntil(func() string {
		if len(s.matchingLogLines(texts...)) == 0 {
			return fmt.Sprintf("no line of the log has %q", texts)
		}
		return ""
	})
}

// waitForMetric waits for a line of the metrics endpoint.
func (s *problemCase) waitForMetric(line string) {
	s.Helper()
	s.waitUntil(func() string {
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, metrics, http.NoBody)
		if err != nil {
			return err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(text), line) {
			return "metrics do not have " + line
		}
		return ""
	})
}
