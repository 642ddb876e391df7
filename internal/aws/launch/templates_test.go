package launch

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func TestFM_A10_TemplateDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.must(l.request(nodeClaim("x")))
		clear(l.templates)
		l.calls = nil
		l.must(l.request(nodeClaim("y")))
		if diff := cmp.Diff([]string{"fleet", "describe", "create", "fleet"}, l.calls); diff != "" {
			t.Error(diff)
		}
		l.response = func(int, *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return nil, fault("InvalidLaunchTemplateName.NotFoundException", "gone")
		}
		l.calls = nil
		if _, err := l.Launch(t.Context(), l.request(nodeClaim("z"))); err == nil || cloud.KindOf(err) != cloud.Unknown {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]string{"fleet", "describe", "fleet"}, l.calls); diff != "" {
			t.Errorf("one retry, no more\n%s", diff)
		}
	})
}

func TestTemplatesExpire(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.templates["karpenter.k8s.aws/1"] = map[string]string{tagClusterName: "demo"}
		l.templates["other"] = map[string]string{tagClusterName: "another"}
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := l.request(nodeClaim("x"))
		l.must(r)
		time.Sleep(40 * time.Second)
		r.Claim = nodeClaim("y")
		l.must(r)
		l.Sweep(t.Context())
		if len(l.templates) != 3 {
			t.Errorf("%d templates after 40 s", len(l.templates))
		}
		time.Sleep(40 * time.Second)
		l.Sweep(t.Context())
		if _, orphan := l.templates["karpenter.k8s.aws/1"]; orphan || len(l.templates) != 2 {
			t.Errorf("after 80 s: %v", l.templates)
		}
		time.Sleep(time.Minute)
		l.Sweep(t.Context())
		if diff := cmp.Diff([]string{"other"}, slices.Collect(maps.Keys(l.templates))); diff != "" {
			t.Error(diff)
		}
	})
}

// Templates that expire are deleted in the order of their names: records of the requests can be compared.
func TestTemplatesExpireInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		want := []string{"karpenter.k8s.aws/1", "karpenter.k8s.aws/2", "karpenter.k8s.aws/3", "karpenter.k8s.aws/4"}
		for range 10 {
			l.deleted = nil
			for _, name := range want {
				l.templates[name] = map[string]string{tagClusterName: "demo"}
			}
			if err := l.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			l.Sweep(t.Context())
			if diff := cmp.Diff(want, l.deleted); diff != "" {
				t.Fatalf("deleted (-want +got):\n%s", diff)
			}
		}
	})
}

func TestTemplatesOfAClassAreDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.must(l.request(nodeClaim("x")))
		l.templates["other"] = map[string]string{tagClusterName: "demo", awsv1.LabelNodeClass: "another"}
		if err := l.DeleteTemplates(t.Context(), nodeClass()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"other"}, slices.Collect(maps.Keys(l.templates))); diff != "" {
			t.Error(diff)
		}
	})
}
