package v1_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

func TestValidateNodePool(t *testing.T) {
	t.Parallel()
	type change = func(*karpv1.NodeClaimTemplate)
	require := func(key string, op corev1.NodeSelectorOperator, values ...string) change {
		return func(c *karpv1.NodeClaimTemplate) {
			c.Spec.Requirements = append(c.Spec.Requirements, karpv1.Requirement{Key: key, Operator: op, Values: values})
		}
	}
	label := func(key, value string) change {
		return func(c *karpv1.NodeClaimTemplate) { c.ObjectMeta.Labels = map[string]string{key: value} }
	}
	both := func(changes ...change) change {
		return func(c *karpv1.NodeClaimTemplate) {
			for _, change := range changes {
				change(c)
			}
		}
	}
	for name, tc := range map[string]struct {
		change      change
		want        reason.Code // of the only problem; empty means valid
		wantIgnored bool
	}{
		"API-3.2 an empty pool":                                   {change: func(*karpv1.NodeClaimTemplate) {}},
		"API-3.2 a well-known label":                              {change: require("karpenter.k8s.aws/instance-family", "In", "m5")},
		"API-6.3 a custom label of kubernetes.io":                 {change: label("kubernetes.io/team", "a")},
		"API-6.3 a label of the controller":                       {change: label("karpenter.sh/registered", "true"), want: reason.LabelRestricted},
		"API-6.3 a sub-domain of it":                              {change: label("x.karpenter.sh/y", "true"), want: reason.LabelRestricted},
		"API-6.3 a domain that only ends like it":                 {change: label("my-karpenter.sh/y", "true")},
		"API-6.2 the class label passes admission but not this":   {change: require("karpenter.k8s.aws/ec2nodeclass", "In", "x"), want: reason.LabelRestricted},
		"API-6.2 instance-pods was removed":                       {change: require("karpenter.k8s.aws/instance-pods", "Gt", "2"), want: reason.LabelRestricted},
		"NP-05 the pool's own label":                              {change: require("karpenter.sh/nodepool", "Exists"), want: reason.LabelRestricted},
		"NP-05 by its old name":                                   {change: label("karpenter.sh/provisioner-name", "x"), want: reason.LabelRestricted},
		"NP-06 hostname":                                          {change: require("kubernetes.io/hostname", "Exists"), want: reason.LabelRestricted},
		"API-3.2 a malformed key":                                 {change: label("a b", "x"), want: reason.LabelMalformed},
		"API-3.2 a malformed label value":                         {change: label("team", "a b"), want: reason.LabelMalformed},
		"API-3.2 a malformed requirement value":                   {change: require("team", "In", "a b"), want: reason.LabelMalformed},
		"API-3.2 an unknown operator":                             {change: require("team", "Near", "a"), want: reason.OperatorUnknown},
		"NP-01 In without values":                                 {change: require("team", "In"), want: reason.ValuesMissing},
		"FM I19 bounds that leave no number":                      {change: both(require("size", "Gt", "8"), require("size", "Lt", "4")), want: reason.FieldInvalid},
		"FM I19 bounds that leave one":                            {change: both(require("size", "Gt", "8"), require("size", "Lt", "10"))},
		"FM I19 a label that the requirements exclude":            {change: both(require("team", "In", "b"), label("team", "a")), want: reason.FieldInvalid},
		"FM I19 a label that they allow":                          {change: both(require("team", "NotIn", "b"), label("team", "a"))},
		"NP-02 Gt with text":                                      {change: require("size", "Gt", "big"), want: reason.ValueNotInteger},
		"NP-02 Gte with a number":                                 {change: require("size", "Gte", "4")},
		"API-3.2 a capacity type that does not exist":             {change: require("karpenter.sh/capacity-type", "In", "cheap"), want: reason.ValueUnknown},
		"API-3.2 an unknown capacity type beside a known one":     {change: require("karpenter.sh/capacity-type", "In", "cheap", "spot"), wantIgnored: true},
		"API-3.2 an unknown tenancy":                              {change: require("karpenter.k8s.aws/instance-tenancy", "In", "host"), want: reason.ValueUnknown},
		"API-3.2 NotIn may name what does not exist":              {change: require("karpenter.sh/capacity-type", "NotIn", "cheap")},
		"NP-03 In with fewer values than minValues":               {change: minValues("team", 3, "a", "b"), want: reason.MinValuesUnmet},
		"API-3.2 fewer known capacity types than minValues":       {change: minValues("karpenter.sh/capacity-type", 2, "spot", "cheap"), want: reason.MinValuesUnmet},
		"API-2.3 the same taint in both lists":                    {change: taints("a:NoSchedule", "a:NoSchedule"), want: reason.TaintDuplicate},
		"API-2.3 the same key with another effect":                {change: taints("a:NoSchedule", "a:NoExecute")},
		"API-2.3 a malformed taint key":                           {change: taints("a b:NoSchedule", "c:NoExecute"), want: reason.TaintMalformed},
		"API-2.3 an unknown effect":                               {change: taints("a:Never", "c:NoExecute"), want: reason.FieldInvalid},
		"API-6.5 labels and requirements together more than 100":  {change: many(60, 41), want: reason.TooManyEntries},
		"API-2.1 a length without representation":                 {change: func(c *karpv1.NodeClaimTemplate) { c.Spec.ExpireAfter = "99999999999h" }, want: reason.DurationMalformed},
		"API-2.1 a grace period of Never":                         {change: func(c *karpv1.NodeClaimTemplate) { c.Spec.TerminationGracePeriod = "Never" }, want: reason.DurationMalformed},
		"API-6.5 labels and requirements together exactly at 100": {change: many(60, 40)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &karpv1.NodePool{}
			tc.change(&p.Spec.Template)
			effective, _ := p.Effective(false)
			problems, ignored := effective.Validate(awsv1.Vocabulary())
			var got reason.Code
			if len(problems) > 0 {
				got = problems[0].Code
			}
			if got != tc.want || len(problems) > 1 {
				t.Errorf("problems %q, want one of code %q", reason.Join(problems, 0), tc.want)
			}
			if (len(ignored) > 0) != tc.wantIgnored {
				t.Errorf("ignored %q, want some: %v", reason.Join(ignored, 0), tc.wantIgnored)
			}
		})
	}
}

func minValues(key string, n int, values ...string) func(*karpv1.NodeClaimTemplate) {
	return func(c *karpv1.NodeClaimTemplate) {
		c.Spec.Requirements = []karpv1.Requirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values, MinValues: &n}}
	}
}

// taints reads key:effect, one taint and one startup taint.
func taints(taint, startup string) func(*karpv1.NodeClaimTemplate) {
	read := func(text string) []corev1.Taint {
		for i := range text {
			if text[i] == ':' {
				return []corev1.Taint{{Key: text[:i], Effect: corev1.TaintEffect(text[i+1:])}}
			}
		}
		return nil
	}
	return func(c *karpv1.NodeClaimTemplate) { c.Spec.Taints, c.Spec.StartupTaints = read(taint), read(startup) }
}

func many(requirements, labels int) func(*karpv1.NodeClaimTemplate) {
	return func(c *karpv1.NodeClaimTemplate) {
		c.ObjectMeta.Labels = map[string]string{}
		for i := range labels {
			c.ObjectMeta.Labels[fmt.Sprint("label", i)] = "x"
		}
		for i := range requirements {
			c.Spec.Requirements = append(c.Spec.Requirements, karpv1.Requirement{Key: fmt.Sprint("key", i), Operator: corev1.NodeSelectorOpExists})
		}
	}
}

func TestTrust_C05_WordsForArchitecturesAreKnown(t *testing.T) {
	t.Parallel()
	pool := &karpv1.NodePool{}
	pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"x86_64"}}}
	problems, _ := pool.Validate(awsv1.Vocabulary())
	if len(problems) != 1 || problems[0].Text() != "spec.template.spec.requirements[0].values: x86_64 is not a known value; use one of amd64, arm64" {
		t.Errorf("got %v", problems)
	}
	pool.Spec.Template.Spec.Requirements[0].Values = []string{"arm64", "x86_64"}
	if problems, ignored := pool.Validate(awsv1.Vocabulary()); len(problems) > 0 || len(ignored) != 1 {
		t.Errorf("beside a known one: problems %v, told %v", problems, ignored)
	}
}
