package demo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// The cluster that the seeds were written for.
const (
	clusterName     = "lab"
	kubernetesMinor = 34
)

// describe returns lines that say what Dovetail reads into a manifest as the user sent it, then what
// else the API server filled in. A manifest that Dovetail cannot use is an error.
func describe(sent, stored *unstructured.Unstructured) ([]string, error) {
	notes, err := read(sent)
	if err != nil {
		return nil, err
	}
	if refusals := reason.Refusals(notes); len(refusals) > 0 {
		return nil, fmt.Errorf("accepted, but not usable: %s", reason.Join(refusals, 0))
	}
	var lines []string
	noted := map[string]bool{}
	for _, note := range notes {
		lines = append(lines, note.Text())
		noted[note.Subject] = true
	}
	for _, field := range kubectl.Added(sent.Object["spec"], stored.Object["spec"]) {
		field.Path = "spec" + field.Path
		if !noted[field.Path] {
			lines = append(lines, "default: "+field.String())
		}
	}
	return lines, nil
}

// read returns the reasons of the effective form.
func read(obj *unstructured.Unstructured) ([]reason.Reason, error) {
	switch obj.GetKind() {
	case "NodePool":
		pool := &karpv1.NodePool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pool); err != nil {
			return nil, err
		}
		_, notes := pool.Effective(false)
		return notes, nil
	case "EC2NodeClass":
		class := &awsv1.EC2NodeClass{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, class); err != nil {
			return nil, err
		}
		_, notes := class.Effective(awsv1.Facts{ClusterName: clusterName, KubernetesMinor: kubernetesMinor})
		return notes, nil
	}
	return nil, nil
}
