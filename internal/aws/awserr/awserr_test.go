package awserr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func api(code string) error { return &smithy.GenericAPIError{Code: code, Message: "text"} }

func withStatus(state int, err error) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "CreateFleet", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: state}}, Err: err},
	}}
}

func TestKind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		want    cloud.Kind
		refused bool
		server  bool
	}{
		"nothing":                         {nil, cloud.Unknown, false, false},
		"an error of ours":                {errors.New("x"), cloud.Unknown, false, false},
		"a timeout is not understood":     {context.DeadlineExceeded, cloud.Unknown, false, false},
		"gone instance":                   {api("InvalidInstanceID.NotFound"), cloud.NotFound, true, false},
		"gone queue, old code":            {api("QueueDoesNotExist"), cloud.NotFound, true, false},
		"gone queue, real code":           {api("AWS.SimpleQueueService.NonExistentQueue"), cloud.NotFound, true, false},
		"gone template":                   {api("InvalidLaunchTemplateName.NotFoundException"), cloud.NotFound, true, false},
		"throttled, as EC2 does with 503": {withStatus(503, api("RequestLimitExceeded")), cloud.Throttled, false, false},
		"throttled, by state":             {withStatus(429, api("Whatever")), cloud.Throttled, false, false},
		"E09 retry budget used up":        {errors.Join(api("RequestLimitExceeded"), errors.New("quota exceeded")), cloud.Throttled, false, false},
		"E09 budget used up, server":      {errors.Join(withStatus(500, api("Unavailable")), errors.New("quota exceeded")), cloud.Unknown, false, true},
		"server error by state":           {withStatus(502, errors.New("bad gateway")), cloud.Unknown, false, true},
		"a capacity code with 500":        {withStatus(500, api("InsufficientInstanceCapacity")), cloud.Unknown, false, true},
		"server error by code":            {api("InternalError"), cloud.Unknown, false, true},
		"server error by fault":           {&smithy.GenericAPIError{Code: "Odd", Fault: smithy.FaultServer}, cloud.Unknown, false, true},
		"no capacity":                     {withStatus(400, api("InsufficientInstanceCapacity")), cloud.NoCapacity, true, false},
		"denied":                          {withStatus(403, api("UnauthorizedOperation")), cloud.Denied, true, false},
		"wrapped and denied":              {fmt.Errorf("x: %w", api("AccessDenied")), cloud.Denied, true, false},
		"odd code":                        {api("Odd"), cloud.Unknown, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := awserr.Kind(tc.err); got != tc.want {
				t.Errorf("kind %v, want %v", got, tc.want)
			}
			if got := awserr.Refused(tc.err); got != tc.refused {
				t.Errorf("refused %v, want %v", got, tc.refused)
			}
			if got := awserr.Server(tc.err); got != tc.server {
				t.Errorf("server %v, want %v", got, tc.server)
			}
		})
	}
}

func TestUnfulfillableIsTheSetOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
		"InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded", "ReservationCapacityExceeded",
	} {
		if !awserr.Unfulfillable(code) {
			t.Errorf("%s is not in the set", code)
		}
	}
	for _, code := range []string{"", "UnauthorizedOperation", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "PendingVerification"} {
		if awserr.Unfulfillable(code) {
			t.Errorf("%q is in the set", code)
		}
	}
}

func TestLaunchReason(t *testing.T) {
	t.Parallel()
	denied := "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/c is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:::instance/* "
	for name, tc := range map[string]struct{ code, message, reason, contains string }{
		"F05 spot role":                {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no", "SpotSLRCreationFailed", "spot.amazonaws.com"},
		"permissions boundary":         {"UnauthorizedOperation", denied + "because no permissions boundary allows the ec2:RunInstances action.", "Unauthorized", "extend the boundary"},
		"service control policy":       {"UnauthorizedOperation", denied + "with an explicit deny in a service control policy.", "Unauthorized", "organization"},
		"plain policy":                 {"UnauthorizedOperation", denied + "because no identity-based policy allows the ec2:RunInstances action.", "Unauthorized", "no policy of the controller's role"},
		"access denied":                {"AccessDenied", "no", "Unauthorized", "no policy"},
		"foreign image":                {"AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure", "share it"},
		"two networks":                 {"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", "SecurityGroupSubnetVPCMismatch", "different VPCs"},
		"A11 profile":                  {"InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", "InstanceProfileNameInvalid", "some seconds"},
		"template by id":               {"InvalidLaunchTemplateId.NotFound", "x", "LaunchTemplateNotFound", "made again"},
		"A15 user data":                {"InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded", "16384"},
		"malformed image":              {"InvalidAMIID.Malformed", "x", "InvalidAMIID", "amiSelectorTerms"},
		"gone image":                   {"InvalidAMIID.NotFound", "x", "AMINotFound", "amiSelectorTerms"},
		"throttled":                    {"RequestLimitExceeded", "x", "RequestLimitExceeded", "throttles"},
		"internal":                     {"InternalError", "x", "InternalError", "internal error"},
		"free tier":                    {"InvalidParameterCombination", "The specified instance type is not eligible for Free Tier.", "FreeTierIneligible", "upgrade"},
		"F13 fleets":                   {"MaxFleetCountExceeded", "x", "FleetQuotaExceeded", "quota"},
		"F13 verification":             {"PendingVerification", "x", "AccountPendingVerification", "verifying"},
		"F03 spot quota":               {"MaxSpotInstanceCountExceeded", "x", "SpotQuotaExceeded", "spot quota"},
		"F04 vCPU quota":               {"VcpuLimitExceeded", "x", "VCPULimitExceeded", "vCPU quota"},
		"F06 subnet":                   {"InsufficientFreeAddressesInSubnet", "x", "InsufficientFreeAddressesInSubnet", "add subnets"},
		"anything else":                {"Odd", "Something.", "LaunchFailed", "Odd: Something"},
		"no code":                      {"", "Something.", "LaunchFailed", "Something"},
		"plain capacity has no reason": {"InsufficientInstanceCapacity", "x", "LaunchFailed", "InsufficientInstanceCapacity: x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason, text := awserr.LaunchReason(tc.code, tc.message)
			if reason != tc.reason || !strings.Contains(text, tc.contains) {
				t.Errorf("got %s: %s; want %s with %q", reason, text, tc.reason, tc.contains)
			}
		})
	}
}

func TestEncodedDenialIsLeftOut(t *testing.T) {
	t.Parallel()
	_, text := awserr.LaunchReason("UnauthorizedOperation", "Not permitted. Encoded authorization failure message: AAAA")
	if strings.Contains(text, "AAAA") || !strings.Contains(text, "Not permitted") {
		t.Error(text)
	}
}

func TestV15_62_TextsAreCut(t *testing.T) {
	t.Parallel()
	long := awserr.Cut(strings.Repeat("é", 2000))
	if n := len([]rune(long)); n != 1024 || !strings.HasSuffix(long, "é...") {
		t.Errorf("%d characters", n)
	}
	if short := strings.Repeat("a", 1024); awserr.Cut(short) != short {
		t.Error("a text that fits was cut")
	}
}

func TestDeniedAction(t *testing.T) {
	t.Parallel()
	call := func(message string) error {
		return &smithy.OperationError{ServiceID: "EC2", OperationName: "CreateFleet", Err: &smithy.GenericAPIError{Code: "UnauthorizedOperation", Message: message}}
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"the service names it":      {call("User: arn:aws:sts::1:assumed-role/c is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/n because"), "iam:PassRole"},
		"it names it last":          {call("User: x is not authorized to perform: ec2:CreateFleet"), "ec2:CreateFleet"},
		"it encodes it":             {call("You are not authorized to perform this operation. Encoded authorization failure message: abc"), "ec2:CreateFleet"},
		"no call is known":          {&smithy.GenericAPIError{Code: "AccessDenied", Message: "no"}, ""},
		"something else altogether": {errors.New("no route"), ""},
	} {
		if got := awserr.DeniedAction(tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
