package nodeclass

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Reasons of ValidationSucceeded that are decided here. Those about the kubelet are in
// internal/aws/kubelet, those of dry runs come with the Verdict.
const (
	NodeClassValidationFailed   = "NodeClassValidationFailed" // Dovetail's own: admission would have refused it
	ClusterCIDRResolutionFailed = "ClusterCIDRResolutionFailed"
	DependenciesNotReady        = "DependenciesNotReady"
	TagValidationFailed         = "TagValidationFailed"
)

// Limits of EC2 on tags.
const (
	maxTags     = 50
	ownTags     = 4 // that a launch adds
	maxTagKey   = 128
	maxTagValue = 256
)

const validated = awsv1.ConditionValidationSucceeded

// validation decides ValidationSucceeded; the first thing that is wrong wins (EC2NodeClass 5).
func (d *decision) validation(refusals []reason.Reason) {
	if len(refusals) > 0 {
		d.setFalse(validated, NodeClassValidationFailed, reason.Join(refusals, 0))
		return
	}
	if !d.clusterCIDR() {
		return
	}
	config, _ := kubelet.Parse(d.class.Spec.Kubelet)
	if why, message := kubelet.Check(config, d.class.Family(), d.facts.Settings.NodeClassCEL); why != "" {
		d.setFalse(validated, why, message)
		return
	}
	// Before the dependencies: IAM refuses an instance profile with such tags, in words of its own.
	if problem := tagProblem(d.class.Spec.Tags); problem != "" {
		d.setFalse(validated, TagValidationFailed, problem)
		return
	}
	if !d.dependencies() || !d.expressions(config) {
		return
	}
	d.dryRun()
}

// clusterCIDR checks what nodes of some families need to know of the cluster.
func (d *decision) clusterCIDR() bool {
	result, family := d.facts.ServiceCIDR, ami.Of(d.class.Family())
	if !family.NeedsServiceCIDR || result.Err == nil && result.Value != "" {
		return true
	}
	err := result.Err
	if err == nil {
		err = errors.New("the cluster has no service CIDR")
	}
	d.step.Err = errors.Join(d.step.Err, err)
	if !awserr.Server(err) && !awserr.Throttled(err) {
		d.setFalse(validated, ClusterCIDRResolutionFailed, "nodes of "+family.Name+" need the service CIDR of the cluster: "+stableError(err)+"; allow eks:DescribeCluster to the controller")
	}
	return false
}

// dependencies waits until what a launch is made of is there.
func (d *decision) dependencies() bool {
	var wrong, open []string
	for _, name := range []string{awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionSubnetsReady} {
		switch d.conditionStatus(name) {
		case metav1.ConditionFalse:
			wrong = append(wrong, name+"=False")
		case metav1.ConditionTrue:
		default:
			open = append(open, name+"=Unknown")
		}
	}
	if len(wrong)+len(open) == 0 {
		return true
	}
	status := metav1.ConditionUnknown
	if len(wrong) > 0 {
		status = metav1.ConditionFalse
	}
	d.set(validated, status, DependenciesNotReady, "not checked while "+strings.Join(append(wrong, open...), ", "))
	d.requeueAfter(validationAgain)
	return false
}

// expressions tries the expressions of the kubelet document on every instance type.
func (d *decision) expressions(config kubelet.Config) bool {
	if !config.Expressions() {
		return true
	}
	if d.facts.Machines.Err != nil || len(d.facts.Machines.Value) == 0 {
		d.step.Err = errors.Join(d.step.Err, d.facts.Machines.Err)
		d.requeueAfter(soon) // instance types are not loaded yet
		return false
	}
	for _, m := range d.facts.Machines.Value {
		if _, err := config.For(m, true); err != nil {
			d.setFalse(validated, kubelet.KubeletExpressionEvaluationFailed, err.Error())
			return false
		}
	}
	return true
}

// dryRun takes the verdict of a dry run over, or requests one.
func (d *decision) dryRun() {
	verdict := d.facts.DryRun
	switch {
	case d.facts.Settings.DryRunDisabled:
		d.setTrue(validated)
	case verdict == nil:
		d.step.DryRun = true
		return
	case verdict.Err != nil: // E17: what was known stands
		d.step.Err = errors.Join(d.step.Err, verdict.Err)
		return
	case verdict.Reason == "":
		d.setTrue(validated)
	default:
		d.setFalse(validated, verdict.Reason, verdict.Message)
	}
	if verdict != nil && verdict.Retry {
		d.requeueAfter(soon)
	}
	d.requeueAfter(validationAgain)
}

// tagProblem says why EC2 would refuse the tags, or why they are not the user's to set (A15).
func tagProblem(tags map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case key == "":
			return "spec.tags has a tag without a key; name it or remove it"
		case slices.Contains([]string{"eks:eks-cluster-name", karpv1.LabelNodePool, karpv1.Group + "/nodeclaim", awsv1.LabelNodeClass}, key) || strings.HasPrefix(key, "kubernetes.io/cluster"):
			return "spec.tags: tag " + key + " is set by the controller; remove it"
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return "spec.tags: tag " + key + " is reserved by AWS; remove it"
		case len([]rune(key)) > maxTagKey || len([]rune(tags[key])) > maxTagValue:
			return fmt.Sprintf("spec.tags: tag %.40s is too long; EC2 takes %d characters for the key and %d for the value", key, maxTagKey, maxTagValue)
		}
	}
	if most := maxTags - ownTags; len(tags) > most {
		return fmt.Sprintf("spec.tags has %d tags; EC2 takes %d, of which the controller needs %d: keep %d at most", len(tags), maxTags, ownTags, most)
	}
	return ""
}
