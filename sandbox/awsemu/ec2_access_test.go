package awsemu

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// Rules reach the calls that were added later, by what they name.
func TestTrust_D03_PermissionsKnowWhatCallsName(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	mine, other := env.reserve(1, nil), env.reserve(1, nil)
	env.callControlAPI(http.MethodPut, "permissions", `[{"action":"ec2:CancelCapacityReservation","resources":["arn:aws:ec2:eu-west-1:111122223333:capacity-reservation/`+*other.CapacityReservationId+`"]}]`)
	for id, want := range map[string]string{*mine.CapacityReservationId: "", *other.CapacityReservationId: "UnauthorizedOperation"} {
		if _, err := env.ec2.CancelCapacityReservation(t.Context(), &ec2.CancelCapacityReservationInput{CapacityReservationId: &id}); apiCode(err) != want {
			t.Errorf("cancel %s: %v, want %q", id, err, want)
		}
	}
}
