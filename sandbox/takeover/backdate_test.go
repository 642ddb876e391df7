package takeover

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// backdateObjects makes pools, classes and claims older than they are, where they are stored: every time in them is set back, that
// of their creation, of their conditions and of the last pod that came or went.
func backdateObjects(t *testing.T, by time.Duration) {
	t.Helper()
	var keys []string
	for _, p := range list(t, &karpv1.NodePoolList{}).Items {
		keys = append(keys, "/registry/karpenter.sh/nodepools/"+p.Name)
	}
	for _, c := range list(t, &karpv1.NodeClaimList{}).Items {
		keys = append(keys, "/registry/karpenter.sh/nodeclaims/"+c.Name)
	}
	for _, c := range list(t, &awsv1.EC2NodeClassList{}).Items {
		keys = append(keys, "/registry/karpenter.k8s.aws/ec2nodeclasses/"+c.Name)
	}
	for _, key := range keys {
		if err := sandbox.ControlPlane.Rewrite(context.WithoutCancel(t.Context()), key, func(stored []byte) ([]byte, error) {
			var tree any
			if err := json.Unmarshal(stored, &tree); err != nil {
				return nil, err
			}
			return json.Marshal(setBack(tree, by))
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// setBack changes every time of a tree.
func setBack(tree any, by time.Duration) any {
	switch value := tree.(type) {
	case map[string]any:
		for key := range value {
			value[key] = setBack(value[key], by)
		}
	case []any:
		for i := range value {
			value[i] = setBack(value[i], by)
		}
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			return at.Add(-by).Format(time.RFC3339)
		}
	}
	return tree
}
