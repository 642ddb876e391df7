package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/aws/zonalshift"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// storedClass is the class as it is stored.
func (e *classEnv) storedClass() *awsv1.EC2NodeClass {
	e.Helper()
	class := &awsv1.EC2NodeClass{}
	if err := e.kube.Get(e.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		e.Fatal(err)
	}
	return class
}

// What goes wrong around a class is on its conditions, with the reason and the name of what is missing
// (EC2NodeClass 5; A15, E14, E15, E17).
func TestFM_A15_E14_E15_E17_ConditionsOfAClass(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil     func(*classEnv)
		condition string
		reason    string
		says      string
	}{
		"no subnet is selected": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) {
					c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-gone"}}
				})
			}, awsv1.ConditionSubnetsReady, "SubnetsNotFound", "",
		},
		"no security group is selected": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) {
					c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nobody"}}
				})
			}, awsv1.ConditionSecurityGroupsReady, "SecurityGroupsNotFound", "",
		},
		"the images were deregistered": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) {
					c.Spec.AMIFamily, c.Spec.AMISelectorTerms = awsv1.FamilyAL2023, []awsv1.AMISelectorTerm{{ID: "ami-gone"}}
				})
			}, awsv1.ConditionAMIsReady, "AMINotFound", "",
		},
		"the alias was never published": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) {
					c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@v19990101"}}
				})
			}, awsv1.ConditionAMIsReady, "AMINotFound", "al2023@v19990101",
		},
		"launch templates may not be made": {
			func(e *classEnv) { e.denyAction("ec2:CreateLaunchTemplate") }, awsv1.ConditionValidationSucceeded, "CreateLaunchTemplateAuthCheckFailed", "ec2:CreateLaunchTemplate",
		},
		"fleets may not be made": {
			func(e *classEnv) { e.denyAction("ec2:CreateFleet") }, awsv1.ConditionValidationSucceeded, "CreateFleetAuthCheckFailed", "ec2:CreateFleet",
		},
		"the user data is too long": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new(strings.Repeat("x", 20000)) })
			},
			awsv1.ConditionValidationSucceeded, "UserDataSizeLimitExceeded", "16384",
		},
		"the profile does not exist": {
			func(e *classEnv) {
				e.editClass(func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", new("nobody") })
			}, awsv1.ConditionValidationSucceeded, "InstanceProfileNotFound", "nobody",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t)
			tc.spoil(e)
			e.reconcileAnyhow()
			class := e.storedClass()
			found := condition.Find(class.Status.Conditions, tc.condition)
			if found == nil || found.Status != metav1.ConditionFalse || found.Reason != tc.reason || !strings.Contains(found.Message, tc.says) {
				t.Errorf("%s: %+v, want False with %s", tc.condition, found, tc.reason)
			}
			if condition.True(class.Status.Conditions, karpv1.ConditionReady) {
				t.Error("the class is ready")
			}
			if n := e.countFleetCalls(); n != 0 {
				t.Errorf("%d fleets", n)
			}
		})
	}
}

// E13, E17: what cannot be requested leaves a class as it was; afterwards it is looked at again.
func TestFM_E13_E17_AClassOutlivesTrouble(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*awsEnv){
		"everything is throttled":    func(l *awsEnv) { l.throttleActions("*") },
		"everything fails":           func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "*", Code: "InternalError", Status: 500}) },
		"nothing responds":           func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "*", Drop: awsemu.DropBefore}) },
		"lookups are denied":         func(l *awsEnv) { l.denyAction("ec2:Describe*") },
		"parameters may not be read": func(l *awsEnv) { l.denyAction("ssm:GetParameter") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t)
			before := e.reconcile()
			if !condition.True(before.Status.Conditions, karpv1.ConditionReady) {
				t.Fatalf("not ready: %+v", before.Status.Conditions)
			}
			spoil(e.awsEnv)
			for range 3 {
				e.reconcileAnyhow()
			}
			after := e.storedClass()
			if diff := cmp.Diff(before.Status, after.Status); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
			e.remove("throttle")
			e.remove("faults")
			e.remove("permissions")
			e.putControl("groups", `[{"id":"sg-more","tags":{"karpenter.sh/discovery":"`+cluster+`"}}]`)
			if groups := e.reconcile().Status.SecurityGroups; len(groups) != 3 {
				t.Errorf("afterwards: %v, want the new group too", groups)
			}
		})
	}
}

// A class that is being deleted waits for its claims; then what was made for it is gone (EC2NodeClass 6).
func TestDeletionOfAClass(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.reconcile()
	one := e.createClaim(claim("one", needsOf("m5.large", "on-demand")))
	e.mustLaunchClaim(one)
	if err := e.kube.Delete(t.Context(), e.storedClass()); err != nil {
		t.Fatal(err)
	}
	e.reconcileAnyhow()
	if finalizers := e.storedClass().Finalizers; !slices.Contains(finalizers, awsv1.FinalizerTermination) || len(e.existingProfiles()) == 0 || len(e.templateNames()) == 0 {
		t.Errorf("with a claim: finalizers %v, profiles %v, templates %v", finalizers, e.existingProfiles(), e.templateNames())
	}
	if !slices.Contains(e.emitted, string(event.WaitingOnNodeClaimTermination)+" default") {
		t.Errorf("reported %v", e.emitted)
	}
	if err := e.kube.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}
	if _, err := e.classes.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := e.kube.Get(t.Context(), request.NamespacedName, &awsv1.EC2NodeClass{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the class is still there: %v", err)
	}
	if profiles, templates := e.existingProfiles(), e.templateNames(); len(profiles) > 0 || len(templates) > 0 {
		t.Errorf("left behind: profiles %v, templates %v", profiles, templates)
	}
}

// E19: instances in a zone that is shifted away are neither described nor ended, and nothing is launched
// there. The end of the shift ends that.
func TestFM_E19_AZoneIsShiftedAway(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	s := l.newLaunchEnv()
	arn, err := s.facts.ARN(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shifts := zonalshift.New(zonalshift.Options{
		Enabled: true, API: arczonalshift.NewFromConfig(l.sdk), ARN: s.facts.ARN, Objects: l.newClient(), Events: &classEnv{}, Now: l.currentTime,
	})
	client := ec2.NewFromConfig(l.sdk)
	inv := inventory.New(inventory.Options{EC2: client, Cluster: cluster, Shifted: shifts.Shifted, Metrics: l.metrics, Now: l.currentTime})
	types := offering.New(offering.Options{
		EC2: client, Prices: s.market.prices, Unavailable: s.market.unavailable, Reservations: s.market.reservations, Region: region,
		Settings: settings.AWS{VMMemoryOverheadPercent: 0.075}, Now: l.currentTime, Shifted: shifts.Shifted,
	})
	if err := types.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	zones := func() string {
		t.Helper()
		found := map[string]bool{}
		for _, o := range availableOfferings((&market{Catalog: types}).typesOfClass(l, s.class)["m5.large"]) {
			_, zone, _ := strings.Cut(o, " ")
			found[zone] = true
		}
		return fmt.Sprint(len(found), found[zoneA])
	}
	id := l.launchInstances(1, onDemand, ownedTags())[0] // in zone a
	if _, err := inv.Find(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.putControl("shifts", `{"active":[{"awayFrom":"euw1-az1","for":"1h"}]}`)
	if err := shifts.Poll(t.Context()); err != nil {
		t.Fatalf("poll of %s: %v", arn, err)
	}
	if got := zones(); got != "2 false" {
		t.Errorf("zones with offerings: %s, want the two others", got)
	}
	before := l.countCalls(wire.EC2, "DescribeInstances")
	if _, err := inv.Fresh(t.Context(), id); err != nil || l.countCalls(wire.EC2, "DescribeInstances") != before {
		t.Errorf("fresh: %v, want what is kept and no call", err)
	}
	if err := inv.Terminate(t.Context(), id); err == nil || cloud.Is(err, cloud.NotFound) || l.countCalls(wire.EC2, "TerminateInstances") > 0 {
		t.Errorf("terminate: %v, want it refused without a call", err)
	}
	l.advanceClock(61 * time.Minute)
	if err := shifts.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := zones(); got != "3 true" {
		t.Errorf("zones with offerings after the shift: %s", got)
	}
	if err := inv.Terminate(t.Context(), id); err != nil {
		t.Errorf("terminate after the shift: %v", err)
	}
}
