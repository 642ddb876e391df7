package provider

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/conformance"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
)

// AWS is a cloud like any other: the SDK, the packages of internal/aws as a process composes them, and EC2 behind HTTP.
func TestAWSIsACloud(t *testing.T) {
	conformance.RunDriver(t, func(t *testing.T) conformance.DriverEnvironment {
		t.Helper()
		e := newEstate(t)
		class := e.readyClass()
		e.setProcessEnvironment()
		return conformance.DriverEnvironment{
			Driver: aws.Driver(), Class: class,
			Settings: map[string]string{"cluster-name": cluster, "cluster-ca-bundle": caBundle, "eks-control-plane": "true"},
			Options: driver.Options{
				Version: "test", Kube: &rest.Config{Host: "https://127.0.0.1:6443"}, Client: e.kube, Reader: e.kube, Events: e, Metrics: e.metrics, Now: e.currentTime,
			},
			Open: func(c driver.Cloud) conformance.Environment {
				pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
				pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
				return conformance.Environment{
					Provider: c, Pool: pool, Foreign: "gce://project/zone/vm",
					Claim: func(name string) *karpv1.NodeClaim {
						return e.createClaim(claim(name, needsOf("m5.large,m6i.large", "spot,on-demand")))
					},
					Record:      func(c *karpv1.NodeClaim, i cloud.Instance) { e.writeLaunchResult(c, i) },
					Restart:     func() cloud.Provider { return e.startCloud() },
					AdvanceTime: func() { e.advanceClock(time.Minute) },
					Exhaust:     func() { e.post("ice", `{}`) },
				}
			},
		}
	})
}
