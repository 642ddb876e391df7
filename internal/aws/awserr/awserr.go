package awserr

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Codes that callers act upon by name.
const (
	CodeDryRun              = "DryRunOperation" // a dry run that would have worked
	CodeTemplateNotFound    = "InvalidLaunchTemplateName.NotFoundException"
	CodeTemplateExists      = "InvalidLaunchTemplateName.AlreadyExistsException"
	CodeParameterMismatch   = "IdempotentParameterMismatch"
	CodeSpotRoleMissing     = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	CodeSubnetFull          = "InsufficientFreeAddressesInSubnet"
	CodeReservationExceeded = "ReservationCapacityExceeded"
	CodeSpotQuota           = "MaxSpotInstanceCountExceeded"
	CodeFleetQuota          = "MaxFleetCountExceeded"
)

// Code is the error code of the response, empty if there was none.
func Code(err error) string {
	if response, ok := errors.AsType[smithy.APIError](err); ok {
		return response.ErrorCode()
	}
	return ""
}

// Text is the message of the response, or the text of the error if there was no response.
func Text(err error) string {
	if response, ok := errors.AsType[smithy.APIError](err); ok {
		return response.ErrorMessage()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// Kind sorts an error into the kinds that callers of a cloud know. What is not understood is Unknown,
// which is never read as "does not exist" or "no capacity" (E09).
func Kind(err error) cloud.Kind {
	switch {
	case err == nil:
		return cloud.Unknown
	case NotFound(err):
		return cloud.NotFound
	case Throttled(err):
		return cloud.Throttled
	case Server(err):
		return cloud.Unknown
	case Unfulfillable(Code(err)):
		return cloud.NoCapacity
	case Unauthorized(err):
		return cloud.Denied
	default:
		return cloud.Unknown
	}
}

// NotFound reports whether what was requested does not exist.
func NotFound(err error) bool {
	return slices.Contains([]string{
		"InvalidCapacityReservationId.NotFound",
		"InvalidInstanceID.NotFound",
		CodeTemplateNotFound,
		"InvalidLaunchTemplateId.NotFound",
		"QueueDoesNotExist",
		"AWS.SimpleQueueService.NonExistentQueue", // what SQS really returns
		"NoSuchEntity",
		"ParameterNotFound",
	}, Code(err))
}

// Throttled reports whether there were too many requests. The same request may be repeated later.
func Throttled(err error) bool {
	if status(err) == http.StatusTooManyRequests {
		return true
	}
	return slices.Contains([]string{
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
		"RequestThrottled", "RequestThrottledException", "EC2ThrottledException", "SlowDown",
	}, Code(err))
}

// Unauthorized reports whether the caller may not do what it tried.
func Unauthorized(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "AuthFailure") || slices.Contains([]string{
		"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "UnauthorizedAccess",
	}, code)
}

// DeniedAction is the action that a denial is about, such as ec2:TerminateInstances: the one that the service names, since
// a launch needs others beside its own, or else the call; empty if neither is known.
func DeniedAction(err error) string {
	_, rest, named := strings.Cut(Text(err), "is not authorized to perform: ")
	if word, _, _ := strings.Cut(rest, " "); named && strings.Contains(word, ":") {
		return word
	}
	if call, ok := errors.AsType[*smithy.OperationError](err); ok {
		return strings.ToLower(call.Service()) + ":" + call.Operation()
	}
	return ""
}

// Server reports whether the service itself failed, so that nothing is known about the request. EC2
// errors carry no fault, so the HTTP status code counts too. Throttling, for which EC2 returns 503, is not
// a failure of the service.
func Server(err error) bool {
	if err == nil || Throttled(err) {
		return false
	}
	if status(err) >= http.StatusInternalServerError {
		return true
	}
	response, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	return response.ErrorFault() == smithy.FaultServer ||
		slices.Contains([]string{"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable"}, response.ErrorCode())
}

// DryRunPassed reports whether the error is how EC2 says that a dry run would have worked.
func DryRunPassed(err error) bool { return Code(err) == CodeDryRun }

// Refused reports whether the service understood the request and declined it, so that nothing was done.
// After any other error (a timeout, a failing service) the request may have been carried out (A03).
func Refused(err error) bool {
	return Code(err) != "" && !Throttled(err) && !Server(err)
}

// Unfulfillable reports whether a code says that an offering has insufficient capacity (ICE).
func Unfulfillable(code string) bool {
	return slices.Contains([]string{
		"InsufficientInstanceCapacity", CodeSpotQuota, "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
		CodeSubnetFull, CodeFleetQuota, CodeReservationExceeded,
	}, code)
}

// status is the HTTP status code of the response, 0 if there was none.
func status(err error) int {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}
