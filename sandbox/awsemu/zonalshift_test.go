package awsemu

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
)

func TestZonalShifts(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client := arczonalshift.NewFromConfig(c.cfg)
	query := func(arn string) (*arczonalshift.GetManagedResourceOutput, error) {
		return client.GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(arn)})
	}
	const arn = "arn:aws:eks:eu-west-1:111122223333:cluster/sandbox"
	out, err := query(arn)
	check(t, err)
	if *out.Arn != arn || *out.Name != "sandbox" || len(out.ZonalShifts) != 0 || out.AppliedWeights["euw1-az1"] != 1 {
		t.Errorf("without shifts %+v", out)
	}
	_, err = query(arn + "-other")
	wantCode(t, err, "ResourceNotFoundException", 404)

	c.set(t, http.MethodPut, "shifts", `{"active":[{"awayFrom":"eu-west-1b","for":"1h","comment":"drill"},{"awayFrom":"euw1-az3","for":"2h","status":"NOT_APPLIED"}]}`)
	out, err = query(arn)
	check(t, err)
	if len(out.ZonalShifts) != 2 {
		t.Fatalf("shifts %+v", out.ZonalShifts)
	}
	s := out.ZonalShifts[0]
	if *s.AwayFrom != "euw1-az2" || s.AppliedStatus != types.AppliedStatusApplied || *s.Comment != "drill" || *s.ResourceIdentifier != arn || s.ExpiryTime.Sub(*s.StartTime) != time.Hour || *s.ZonalShiftId == "" {
		t.Errorf("shift %+v", s)
	}
	if out.AppliedWeights["euw1-az2"] != 0 || out.AppliedWeights["euw1-az3"] != 1 {
		t.Errorf("weights %v", out.AppliedWeights)
	}
	c.clock.Advance(time.Hour)
	out, err = query(arn)
	check(t, err)
	if len(out.ZonalShifts) != 1 || *out.ZonalShifts[0].AwayFrom != "euw1-az3" {
		t.Errorf("after the first expired %+v", out.ZonalShifts)
	}
	var shifts Shifts
	c.callControlAPI(t, http.MethodGet, "shifts", "", &shifts)
	if len(shifts.Active) != 2 || !shifts.Enabled {
		t.Errorf("control %+v", shifts)
	}
	for _, body := range []string{`{"active":[{"awayFrom":"mars","for":"1h"}]}`, `{"active":[{"awayFrom":"euw1-az1"}]}`, `{"active":[{"awayFrom":"euw1-az1","for":"1h","status":"X"}]}`, `{"typo":1}`} {
		if status := c.callControlAPI(t, http.MethodPut, "shifts", body, nil); status != http.StatusBadRequest {
			t.Errorf("%s gives %d", body, status)
		}
	}
	c.set(t, http.MethodPut, "shifts", `{"enabled":false}`)
	_, err = query(arn)
	wantCode(t, err, "ResourceNotFoundException", 404)
}
