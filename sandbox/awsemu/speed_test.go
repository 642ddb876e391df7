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
	lab := newEC2Lab(t)
	lab.emu.speed = 50
	lab.template("t", nil)
	id := lab.launch(spot, "m5.large/a")
	lab.advance(time.Second) // 5 s at speed 1
	lab.wantState(id, types.InstanceStateNameRunning)
	if launched := *lab.describe(id).LaunchTime; !launched.Equal(ec2Start) {
		t.Errorf("launched at %s, want %s", launched, ec2Start)
	}
	lab.control(http.MethodPost, "interrupt", `{"instance":"`+id+`"}`)
	lab.wantState(id, types.InstanceStateNameRunning)
	lab.advance(2500 * time.Millisecond) // of a notice of two minutes
	lab.wantState(id, types.InstanceStateNameShuttingDown)
	lab.advance(time.Second)
	lab.wantState(id, types.InstanceStateNameTerminated)
	lab.advance(59 * time.Minute) // for which it is seen, at any speed
	if _, err := lab.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Error(err)
	}
}
