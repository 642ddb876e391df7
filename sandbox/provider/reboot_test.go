package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// V15-66, V15-67: an instance is rebooted through the provider; what EC2 will never do is told apart from
// what it may do later.
func TestCloudReboot(t *testing.T) {
	e := newEstate(t)
	c := e.ready()
	one := e.createClaim(claim("one", needsOf("m5.large", "on-demand")))
	e.writeLaunchResult(one, mustLaunch(t, c, one))
	e.advanceClock(time.Minute)
	// The policies that users have from Karpenter do not permit it.
	e.denyAction("ec2:RebootInstances")
	if err := c.Reboot(t.Context(), one, "op"); !cloud.Is(err, cloud.Denied) || !strings.Contains(err.Error(), "ec2:RebootInstances") {
		t.Errorf("no permission: %v", err)
	}
	e.remove("permissions")
	if err := c.Reboot(t.Context(), one, "op"); err != nil {
		t.Errorf("reboot: %v", err)
	}
	if list := e.emu.Instances(); len(list) != 1 || !list[0].Rebooted.Equal(e.currentTime()) || list[0].State != "running" {
		t.Errorf("instances %+v", list)
	}
	e.advanceClock(time.Minute)
	e.injectFault(awsemu.Fault{Action: "ec2:RebootInstances", Code: "InternalError", Status: 500})
	if err := c.Reboot(t.Context(), one, "op"); err == nil || !cloud.Is(err, cloud.Unknown) {
		t.Errorf("EC2 fails: %v", err)
	}
	if err := c.Terminate(t.Context(), cloud.ID(one.Status.ProviderID)); err != nil {
		t.Fatal(err)
	}
	e.advanceClock(time.Minute)
	if err := c.Reboot(t.Context(), one, "op"); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("the instance is gone: %v", err)
	}
}
