package awsemu

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fis"
	"github.com/aws/aws-sdk-go-v2/service/fis/types"
	"github.com/google/go-cmp/cmp"
)

// fisEnv has spot instances and the client of the fault injection service.
type fisEnv struct {
	*ec2Env
	fis *fis.Client
}

func newFISEnv(t *testing.T) *fisEnv {
	t.Helper()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	return &fisEnv{ec2Env: env, fis: fis.NewFromConfig(env.sdk)}
}

// spotTemplate interrupts the spot instances of the pool "default".
func spotTemplate(change func(*fis.CreateExperimentTemplateInput)) *fis.CreateExperimentTemplateInput {
	in := &fis.CreateExperimentTemplateInput{
		ClientToken: aws.String("one"), Description: aws.String("interrupt"), RoleArn: aws.String("arn:aws:iam::111122223333:role/fis"),
		StopConditions: []types.CreateExperimentTemplateStopConditionInput{{Source: aws.String("none")}},
		Targets: map[string]types.CreateExperimentTemplateTargetInput{"nodes": {
			ResourceType: aws.String("aws:ec2:spot-instance"), SelectionMode: aws.String("ALL"), ResourceTags: map[string]string{"karpenter.sh/nodepool": "default"},
			Filters: []types.ExperimentTemplateTargetInputFilter{{Path: aws.String("State.Name"), Values: []string{"running"}}},
		}},
		Actions: map[string]types.CreateExperimentTemplateActionInput{"interrupt": {
			ActionId: aws.String("aws:ec2:send-spot-instance-interruptions"), Parameters: map[string]string{"durationBeforeInterruption": "PT4M"},
			Targets: map[string]string{"SpotInstances": "nodes"},
		}},
	}
	if change != nil {
		change(in)
	}
	return in
}

// run makes a template and starts it.
func (l *fisEnv) run(change func(*fis.CreateExperimentTemplateInput)) string {
	l.Helper()
	made, err := l.fis.CreateExperimentTemplate(l.Context(), spotTemplate(change))
	if err != nil {
		l.Fatal(err)
	}
	started, err := l.fis.StartExperiment(l.Context(), &fis.StartExperimentInput{ClientToken: aws.String("two"), ExperimentTemplateId: made.ExperimentTemplate.Id})
	if err != nil {
		l.Fatal(err)
	}
	return *started.Experiment.Id
}

func (l *fisEnv) status(id string) string {
	l.Helper()
	out, err := l.fis.GetExperiment(l.Context(), &fis.GetExperimentInput{Id: &id})
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(string(out.Experiment.State.Status) + " " + aws.ToString(out.Experiment.State.Reason))
}

func TestTrust_D03_FaultInjectionInterruptsSpotInstances(t *testing.T) {
	t.Parallel()
	env := newFISEnv(t)
	taken, kept := env.launch(spot, "m5.large/a"), env.launch(onDemand, "m5.large/a")
	env.advanceClock(time.Minute)
	env.events()
	id := env.run(nil)
	if got := env.status(id); got != "running" {
		t.Errorf("it is %s", got)
	}
	// A recommendation at once, the warning two minutes ahead of the end.
	if diff := cmp.Diff([]string{"1m0s EC2 Instance Rebalance Recommendation"}, eventLines(env.events())); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	env.advanceClock(2 * time.Minute)
	if diff := cmp.Diff([]string{"3m0s EC2 Spot Instance Interruption Warning terminate"}, eventLines(env.events())); diff != "" {
		t.Errorf("after two minutes (-want +got):\n%s", diff)
	}
	env.wantState(taken, "running")
	env.advanceClock(3 * time.Minute)
	env.wantState(taken, "terminated")
	env.wantState(kept, "running")
	if got := env.status(id); got != "completed" {
		t.Errorf("in the end it is %s", got)
	}
	list, err := env.fis.ListExperiments(t.Context(), &fis.ListExperimentsInput{})
	if err != nil || len(list.Experiments) != 1 || *list.Experiments[0].Id != id {
		t.Errorf("experiments %+v, %v", list, err)
	}
}

func TestTrust_D03_FaultInjectionChoosesItsTargets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(target *types.CreateExperimentTemplateTargetInput, ids []string)
		want   int
	}{
		"a count": {func(target *types.CreateExperimentTemplateTargetInput, _ []string) {
			target.SelectionMode = aws.String("COUNT(2)")
		}, 2},
		"a share": {func(target *types.CreateExperimentTemplateTargetInput, _ []string) {
			target.SelectionMode = aws.String("PERCENT(75)")
		}, 3},
		"by ARN": {func(target *types.CreateExperimentTemplateTargetInput, ids []string) {
			target.ResourceTags, target.ResourceArns = nil, []string{"arn:aws:ec2:eu-west-1:111122223333:instance/" + ids[0]}
		}, 1},
		"by zone": {func(target *types.CreateExperimentTemplateTargetInput, _ []string) {
			target.Filters = []types.ExperimentTemplateTargetInputFilter{{Path: aws.String("Placement.AvailabilityZone"), Values: []string{"eu-west-1b"}}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newFISEnv(t)
			ids := fleetIDs(env.createFleet(fleetInput(spot, 4, "m5.large/a")))
			env.advanceClock(time.Minute)
			id := env.run(func(in *fis.CreateExperimentTemplateInput) {
				target := in.Targets["nodes"]
				tc.change(&target, ids)
				in.Targets["nodes"] = target
			})
			env.advanceClock(5 * time.Minute)
			ended := 0
			for _, instance := range ids {
				if env.describe(instance).State.Name == "terminated" {
					ended++
				}
			}
			want := "completed"
			if tc.want == 0 {
				want = "failed Target resolution returned empty set"
			}
			if got := env.status(id); ended != tc.want || got != want {
				t.Errorf("%d ended and it is %s, want %d and %s", ended, got, tc.want, want)
			}
		})
	}
}

func TestTrust_D03_FaultInjectionStopsAndRefuses(t *testing.T) {
	t.Parallel()
	env := newFISEnv(t)
	instance := env.launch(spot, "m5.large/a")
	env.advanceClock(time.Minute)
	id := env.run(nil)
	if _, err := env.fis.StopExperiment(t.Context(), &fis.StopExperimentInput{Id: &id}); err != nil {
		t.Fatal(err)
	}
	env.advanceClock(10 * time.Minute)
	env.wantState(instance, "running")
	if got := env.status(id); got != "stopped" {
		t.Errorf("it is %s", got)
	}
	for name, change := range map[string]func(*fis.CreateExperimentTemplateInput){
		"an action that is not emulated": func(in *fis.CreateExperimentTemplateInput) {
			action := in.Actions["interrupt"]
			action.ActionId = aws.String("aws:ecs:stop-task")
			in.Actions["interrupt"] = action
		},
		"a target that is not there": func(in *fis.CreateExperimentTemplateInput) { in.Targets = nil },
		"a notice that is too short": func(in *fis.CreateExperimentTemplateInput) {
			in.Actions["interrupt"].Parameters["durationBeforeInterruption"] = "PT1M"
		},
	} {
		if _, err := env.fis.CreateExperimentTemplate(t.Context(), spotTemplate(change)); apiCode(err) != "ValidationException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := env.fis.StartExperiment(t.Context(), &fis.StartExperimentInput{ClientToken: aws.String("x"), ExperimentTemplateId: aws.String("EXT1")}); apiCode(err) != "ResourceNotFoundException" {
		t.Errorf("an unknown template: %v", err)
	}
	templates, err := env.fis.ListExperimentTemplates(t.Context(), &fis.ListExperimentTemplatesInput{})
	if err != nil || len(templates.ExperimentTemplates) != 1 {
		t.Fatalf("templates %+v, %v", templates, err)
	}
	if _, err := env.fis.DeleteExperimentTemplate(t.Context(), &fis.DeleteExperimentTemplateInput{Id: templates.ExperimentTemplates[0].Id}); err != nil {
		t.Error(err)
	}
	// The state survives a restart.
	state := env.callControlAPI(http.MethodGet, "state", "")
	env.callControlAPI(http.MethodPost, "reset", "")
	env.callControlAPI(http.MethodPut, "state", state)
	if got := env.status(id); got != "stopped" {
		t.Errorf("after a restart it is %s", got)
	}
}

// Experiments hurry as everything else does.
func TestTrust_D03_FaultInjectionAtSpeed(t *testing.T) {
	t.Parallel()
	env := newFISEnv(t)
	env.emu.speed = 10
	instance := env.launch(spot, "m5.large/a")
	env.advanceClock(time.Minute)
	env.events()
	id := env.run(nil)
	env.advanceClock(12 * time.Second)
	if got := eventLines(env.events()); len(got) != 2 || !strings.Contains(got[1], "Interruption Warning") {
		t.Errorf("after two minutes at speed 10: %q", got)
	}
	env.advanceClock(14 * time.Second)
	env.wantState(instance, "terminated")
	if got := env.status(id); got != "completed" {
		t.Errorf("in the end it is %s", got)
	}
}
