package provider

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/conformance"
)

// AWS is a cloud like any other: the SDK, the packages of internal/aws as a process composes them, and EC2 behind HTTP.
func TestAWSIsACloud(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Environment {
		t.Helper()
		e := newEstate(t)
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
		return conformance.Environment{
			Provider: e.ready(), Pool: pool, Foreign: "gce://project/zone/vm",
			Claim: func(name string) *karpv1.NodeClaim {
				return e.createClaim(claim(name, needsOf("m5.large,m6i.large", "spot,on-demand")))
			},
			Record:      func(c *karpv1.NodeClaim, i cloud.Instance) { e.writeLaunchResult(c, i) },
			Restart:     func() cloud.Provider { return e.startCloud() },
			AdvanceTime: func() { e.advanceClock(time.Minute) },
			Exhaust:     func() { e.post("ice", `{}`) },
		}
	})
}
