package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// neutral are the packages that know no cloud by name: what AWS has of its own is behind internal/cloud/driver.
var neutral = []string{
	"internal/app", "internal/budget", "internal/buffer", "internal/catalog", "internal/check", "internal/cloud/...", "internal/cluster", "internal/config", "internal/disrupt/...", "internal/drain", "internal/drift", "internal/duration",
	"internal/event", "internal/execute", "internal/inspect/...", "internal/interruption", "internal/journal", "internal/lifecycle", "internal/metric", "internal/overlay", "internal/pool", "internal/provision",
	"internal/reboot", "internal/replay", "internal/report", "internal/reqs", "internal/resources", "internal/risk", "internal/scenario", "internal/snapshot", "internal/solve/...", "internal/store", "internal/uninstall",
	"internal/controller/buffers", "internal/controller/claims", "internal/controller/disruption", "internal/controller/lookup", "internal/controller/loop", "internal/controller/nodes",
	"internal/controller/observe", "internal/controller/overlays", "internal/controller/pools", "internal/controller/provisioning", "internal/controller/write",
}

// namesCloud finds the words of AWS in a name or a text.
var namesCloud = regexp.MustCompile(`(?i)\baws|aws\b|aws_|amazon|\bec2|ec2nodeclass|\bamis?\b|\barns?\b|\bebs\b|\beks\b|\bsqs\b|\biam\b`)

// frozen are texts that name AWS because users know them from Karpenter, with the reason.
var frozen = map[string]string{
	"EC2NodeClass": "the kind on which events appear; compat/events.txt",
	"karpenter_ec2nodeclasses_userdata_bytes":     "the name of a metric",
	"aws_sdk_go_request_total":                    "the name of a metric of Karpenter; compat/metrics.txt",
	"aws_sdk_go_request_attempt_total":            "the same",
	"aws_sdk_go_request_retry_count":              "the same",
	"aws_sdk_go_request_duration_seconds":         "the same",
	"aws_sdk_go_request_attempt_duration_seconds": "the same",
	"AWSElasticBlockStore":                        "a field of Kubernetes' PersistentVolume",
	"AWSElasticBlockStoreVolumeSource":            "its type",
	"aws-":                                        "how the name of a chart of Cluster Autoscaler begins",
	"eks.amazonaws.com/capacityType":              "a label of node groups that others manage, beside those of other clouds",
	"eks.amazonaws.com/nodegroup":                 "the same",
	"kubernetes.io/aws-ebs":                       "a volume plugin of Kubernetes",
	"aws-ebs":                                     "its name in the labels of Kubernetes",
	"ebs.csi.aws.com":                             "the CSI driver that it stands for",

	"has joined yet; if none does, see whether the role of the node may join the cluster (access entry or aws-auth), and the kubelet log of the instance": "what a user of EKS has to look at",
}

// A cloud is one package behind the port: names, texts and imports of these packages are about no cloud in
// particular. Comments may give examples.
func TestNeutralPackagesNameNoCloud(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, file := range repository(t).sources {
		if file.nested || file.test() || !matches(neutral, file.dir()) {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.Ident:
				text = n.Name
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text = strings.TrimSpace(strings.Trim(n.Value, "`\""))
				}
			}
			if _, known := frozen[text]; known {
				used[text] = true
				return true
			}
			if namesCloud.MatchString(text) {
				t.Errorf("%s: %q names AWS; it belongs into internal/aws, behind internal/cloud/driver", file.path, text)
			}
			return true
		})
	}
	for text := range frozen {
		if !used[text] {
			t.Errorf("%q is an exception that nothing needs", text)
		}
	}
	for _, pattern := range neutral {
		if !slices.ContainsFunc(repository(t).sources, func(f *source) bool { return matches([]string{pattern}, f.dir()) }) {
			t.Errorf("there is no package %s", pattern)
		}
	}
}
