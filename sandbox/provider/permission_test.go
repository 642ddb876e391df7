package provider

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// E17: a dry run names the action that is denied; throttled or broken, it is no verdict.
func TestFM_E17_DryRuns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil  func(*awsEnv)
		reason string
		action string
		again  bool
	}{
		"all is fine":         {spoil: func(*awsEnv) {}},
		"no launch templates": {spoil: func(l *awsEnv) { l.denyAction("ec2:CreateLaunchTemplate") }, reason: "CreateLaunchTemplateAuthCheckFailed", action: "ec2:CreateLaunchTemplate"},
		"no fleets":           {spoil: func(l *awsEnv) { l.denyAction("ec2:CreateFleet") }, reason: "CreateFleetAuthCheckFailed", action: "ec2:CreateFleet"},
		"no instances":        {spoil: func(l *awsEnv) { l.denyAction("ec2:RunInstances") }, reason: "Any", action: "ec2:RunInstances"}, // EC2 requires it with the fleet
		"no instances of our own": {spoil: func(l *awsEnv) {
			l.injectFault(awsemu.Fault{Action: "ec2:RunInstances", Code: "UnauthorizedOperation", Message: "no", Status: 403})
		}, reason: "RunInstancesAuthCheckFailed", action: "ec2:RunInstances"},
		"the role is not passed":  {spoil: func(l *awsEnv) { l.denyAction("iam:PassRole") }, action: "iam:PassRole", reason: "Any"},
		"tags may not be created": {spoil: func(l *awsEnv) { l.denyAction("ec2:CreateTags") }, action: "ec2:CreateTags", reason: "Any"},
		"fleets are throttled":    {spoil: func(l *awsEnv) { l.throttleActions("ec2:CreateFleet") }, again: true},
		"EC2 fails": {spoil: func(l *awsEnv) {
			l.injectFault(awsemu.Fault{Action: "ec2:RunInstances", Code: "InternalError", Status: 500})
		}, again: true},
		"EC2 does not respond": {spoil: func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:CreateFleet", Drop: awsemu.DropBefore}) }, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			tc.spoil(s.awsEnv)
			reason, message, retry, err := s.Validate(t.Context(), s.class)
			switch {
			case tc.again:
				if err == nil || !retry || reason != "" {
					t.Errorf("validate: %q %q %v %v, want no verdict", reason, message, retry, err)
				}
			case tc.reason == "":
				if reason != "" || err != nil {
					t.Errorf("validate: %q %q %v", reason, message, err)
				}
			default:
				if !strings.HasSuffix(reason, "AuthCheckFailed") || !strings.Contains(message, tc.action) || err != nil {
					t.Errorf("validate: %q %q %v, want %s named", reason, message, err, tc.action)
				}
				if strings.HasSuffix(tc.reason, "AuthCheckFailed") && reason != tc.reason {
					t.Errorf("reason %s, want %s", reason, tc.reason)
				}
			}
			if n := len(s.liveInstances()); n != 0 {
				t.Errorf("%d instances after a dry run", n)
			}
		})
	}
}

// A launch that is denied names the action, and says nothing about capacity (A09).
func TestFM_A09_ALaunchThatIsDenied(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole", "ec2:CreateLaunchTemplate"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			s.denyAction(action)
			_, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand")))
			if e := asError(err); e == nil || e.Kind != cloud.Denied || e.Reason != "Unauthorized" || !strings.Contains(e.Error(), action) {
				t.Errorf("launch: %#v", err)
			}
			if s.market.unavailable.Has("on-demand", "m5.large", zoneA, offering.Group{}) {
				t.Error("the offering was taken for out of capacity")
			}
		})
	}
}
