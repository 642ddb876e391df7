package awsemu

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// At a speed above 1 machines start and end sooner, while time stamps stay those of the clock that everybody else has: an
// instance that was launched in the future is never old enough to be collected.
func TestTrust_D01_TimeStampsAreRealAtAnySpeed(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.emu.speed = 50
	env.createTemplate("t", nil)
	id := env.launch(spot, "m5.large/a")
	env.advanceClock(time.Second) // 5 s at speed 1
	env.wantState(id, types.InstanceStateNameRunning)
	if launched := *env.describe(id).LaunchTime; !launched.Equal(ec2Start) {
		t.Errorf("launched at %s, want %s", launched, ec2Start)
	}
	env.callControlAPI(http.MethodPost, "interrupt", `{"instance":"`+id+`"}`)
	env.wantState(id, types.InstanceStateNameRunning)
	env.advanceClock(2500 * time.Millisecond) // of a notice of two minutes
	env.wantState(id, types.InstanceStateNameShuttingDown)
	env.advanceClock(time.Second)
	env.wantState(id, types.InstanceStateNameTerminated)
	env.advanceClock(59 * time.Minute) // for which it is seen, at any speed
	if _, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Error(err)
	}
}
