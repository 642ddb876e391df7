package app

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// FM C12: without our CRDs the controller ends at once and says how to install them (install 17); it is started
// again until they are there.
func TestFM_C12_MissingCRDsAreNamed(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{karpv1.GroupVersion(), awsv1.GroupVersion()})
	mapper.Add(karpv1.GroupVersion().WithKind("NodeClaim"), meta.RESTScopeRoot)
	mapper.Add(awsv1.GroupVersion().WithKind(awsv1.Kind), meta.RESTScopeRoot)
	err := checkCRDs(mapper, aws.Driver().Classes(config.Config{}))
	if err == nil || !strings.Contains(err.Error(), "NodePool (karpenter.sh/v1)") || strings.Contains(err.Error(), "NodeClaim") || !strings.Contains(err.Error(), "dovetail crds") {
		t.Errorf("served() = %v, want the missing kind and the command", err)
	}
	mapper.Add(karpv1.GroupVersion().WithKind("NodePool"), meta.RESTScopeRoot)
	if err := checkCRDs(mapper, aws.Driver().Classes(config.Config{})); err != nil {
		t.Errorf("served() = %v with all kinds", err)
	}
}
