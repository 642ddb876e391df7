package awsemu

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

func createProfile(t *testing.T, c *cloud, name string) error {
	t.Helper()
	_, err := iam.NewFromConfig(c.cfg).CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{
		InstanceProfileName: &name, Tags: []iamtypes.Tag{{Key: aws.String("of"), Value: aws.String("the test of " + name)}},
	})
	return err
}

// What is done when a trigger fires, and what the client gets.
func TestTriggersFireBetweenSteps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		moment              Moment
		wantMade, wantError bool
	}{
		"before the call: nothing is done":        {BeforeCall, false, false},
		"before the response: done, not reported": {BeforeResponse, true, false},
		"after the response: done and reported":   {AfterResponse, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCloud(t)
			var got Call
			fired, _ := c.Once(Trigger{Action: "iam:CreateInstance*", Text: "test of second", Moment: tc.moment, Run: func(call Call) { got = call }})
			if err := createProfile(t, c, "first"); err != nil {
				t.Fatalf("a call that does not match: %v", err)
			}
			if err := createProfile(t, c, "second"); (err == nil) != tc.wantError {
				t.Errorf("the client is told %v", err)
			}
			<-fired
			if got.Action != "CreateInstanceProfile" || got.Parameters["InstanceProfileName"] != "second" {
				t.Errorf("fired at %+v", got)
			}
			_, err := iam.NewFromConfig(c.cfg).GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("second")})
			if (err == nil) != tc.wantMade {
				t.Errorf("made: %v", err)
			}
		})
	}
}

// A call that failed did not do its step; the trigger waits for one that does. Those before it are counted.
func TestTriggersWaitForSuccessAndCount(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	fired, _ := c.Once(Trigger{Action: "iam:CreateInstanceProfile", After: 1, Moment: AfterResponse, Run: func(Call) {}})
	never, cancel := c.Once(Trigger{Action: "iam:*", Moment: AfterResponse, Run: func(Call) {}})
	cancel()
	if err := createProfile(t, c, "one"); err != nil {
		t.Fatal(err)
	}
	if err := createProfile(t, c, "one"); err == nil {
		t.Fatal("made twice")
	}
	select {
	case <-fired:
		t.Error("fired at the first success, or at a failure")
	case <-never:
		t.Error("fired after it was cancelled")
	default:
	}
	if err := createProfile(t, c, "two"); err != nil {
		t.Fatal(err)
	}
	<-fired
}

func TestWatchShowsCalls(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	reported := make(chan Call, 10)
	stop := c.Watch(func(call Call) { reported <- call })
	if err := createProfile(t, c, "one"); err != nil {
		t.Fatal(err)
	}
	if err := createProfile(t, c, "one"); err == nil {
		t.Fatal("made twice")
	}
	if call := <-reported; call.Action != "CreateInstanceProfile" || !call.Done || call.Code != "" || call.Key != "AKIDTEST" {
		t.Errorf("first call seen as %+v", call)
	}
	if call := <-reported; call.Code != "EntityAlreadyExists" {
		t.Errorf("second call seen as %+v", call)
	}
	stop()
	if err := createProfile(t, c, "two"); err != nil {
		t.Fatal(err)
	}
	if len(reported) > 0 {
		t.Errorf("saw %+v after the end", <-reported)
	}
}
