package awsemu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// registerEC2 adds the operations and the controls of EC2.
func (e *Emulator) registerEC2() {
	for action, run := range map[string]func(*call) (any, error){
		"DescribeAvailabilityZones":      e.describeZones,
		"DescribeCapacityReservations":   e.describeReservations,
		"DescribeImages":                 e.describeImages,
		"DescribeInstances":              e.describeInstances,
		"DescribeInstanceStatus":         e.describeInstanceStatus,
		"DescribeInstanceTypeOfferings":  e.describeOfferings,
		"DescribeInstanceTypes":          e.describeInstanceTypes,
		"DescribeLaunchTemplates":        e.describeTemplates,
		"DescribeLaunchTemplateVersions": e.describeTemplateVersions,
		"DescribeNetworkInterfaces":      e.describeInterfaces,
		"DescribePlacementGroups":        e.describePlacementGroups,
		"DescribeSecurityGroupRules":     e.describeGroupRules,
		"DescribeSecurityGroups":         e.describeSecurityGroups,
		"DescribeSpotInstanceRequests":   e.describeSpotRequests,
		"DescribeSpotPriceHistory":       e.describeSpotPrices,
		"DescribeSubnets":                e.describeSubnets,
		"DescribeTags":                   e.describeTags,
		"DescribeVolumes":                e.describeVolumes,
		"DescribeVpcs":                   e.describeVPCs,
	} {
		e.register(wire.EC2, action, dryRunnable(run))
	}
	for action, run := range map[string]func(*call) (any, error){
		"CreateLaunchTemplate":                             e.createTemplate, // dry runs look at the content first
		"RunInstances":                                     e.runInstances,   // so do these
		"AttachVolume":                                     dryRunnable(e.attachVolume),
		"AuthorizeSecurityGroupEgress":                     dryRunnable(e.authorizeRules),
		"AuthorizeSecurityGroupIngress":                    dryRunnable(e.authorizeRules),
		"CancelCapacityReservation":                        dryRunnable(e.cancelReservation),
		"CopyImage":                                        dryRunnable(e.copyImage),
		"CreateCapacityReservation":                        dryRunnable(e.createReservation),
		"CreateInterruptibleCapacityReservationAllocation": dryRunnable(e.lendCapacity),
		"CreatePlacementGroup":                             dryRunnable(e.createPlacement),
		"CreateSecurityGroup":                              dryRunnable(e.createGroup),
		"CreateTags":                                       dryRunnable(e.createTags),
		"CreateVolume":                                     dryRunnable(e.createVolume),
		"DeleteLaunchTemplate":                             dryRunnable(e.deleteTemplate),
		"DeletePlacementGroup":                             dryRunnable(e.deletePlacement),
		"DeleteSecurityGroup":                              dryRunnable(e.deleteGroup),
		"DeleteTags":                                       dryRunnable(e.deleteTags),
		"DeleteVolume":                                     dryRunnable(e.deleteVolume),
		"DeregisterImage":                                  dryRunnable(e.deregisterImage),
		"DetachVolume":                                     dryRunnable(e.detachVolume),
		"DisableImageDeprecation":                          dryRunnable(e.disableDeprecation),
		"EnableImageDeprecation":                           dryRunnable(e.enableDeprecation),
		"ModifyCapacityReservation":                        dryRunnable(e.modifyReservation),
		"ModifySubnetAttribute":                            dryRunnable(e.modifySubnet),
		"RebootInstances":                                  dryRunnable(e.rebootInstances),
		"StartInstances":                                   dryRunnable(e.startInstances),
		"StopInstances":                                    dryRunnable(e.stopInstances),
		"RevokeSecurityGroupEgress":                        dryRunnable(e.revokeRules),
		"RevokeSecurityGroupIngress":                       dryRunnable(e.revokeRules),
		"TerminateInstances":                               dryRunnable(e.terminateInstances),
		"UpdateInterruptibleCapacityReservationAllocation": dryRunnable(e.updateLent),
	} {
		e.registerMutating(wire.EC2, action, run)
	}
	e.registerLong(wire.EC2, "CreateFleet", e.createFleet)
	e.registerEC2Controls()
	e.registerEC2Injections()
}

func errDryRun() error {
	return wire.Errorf("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}

// dryRunnable lets an operation end before it has an effect. Permissions were checked before.
func dryRunnable(run func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if c.Form.Bool("DryRun") {
			return nil, errDryRun()
		}
		return run(c)
	}
}

// clientToken keeps the response to a call that must not run twice.
type clientToken struct {
	Expires     time.Time         `json:"expires"`
	Fingerprint string            `json:"fingerprint"` // of the parameters
	Fleet       *fleetResponse    `json:"fleet,omitempty"`
	Template    *templateResponse `json:"template,omitempty"`
	Run         *runResponse      `json:"run,omitempty"`
}

// tokenLife is how long EC2 keeps a client token.
const tokenLife = 24 * time.Hour

// findClientToken returns the token of an earlier call with the same parameters, or nil.
func (e *Emulator) findClientToken(c *call) (*clientToken, error) {
	token := c.Form.String("ClientToken")
	old := e.ec2().Tokens[c.Action+"/"+token]
	if token == "" || old == nil || !c.now.Before(old.Expires) {
		return nil, nil
	}
	if old.Fingerprint != requestFingerprint(c) {
		return nil, wire.Errorf("IdempotentParameterMismatch", "The client token '%s' was used before with other parameters", token)
	}
	return old, nil
}

// storeClientToken keeps the response to a call that carries a token, and drops old ones.
func (e *Emulator) storeClientToken(c *call, response clientToken) {
	token := c.Form.String("ClientToken")
	if token == "" {
		return
	}
	maps.DeleteFunc(e.ec2().Tokens, func(_ string, t *clientToken) bool { return !c.now.Before(t.Expires) })
	response.Expires, response.Fingerprint = c.now.Add(tokenLife), requestFingerprint(c)
	e.ec2().Tokens[c.Action+"/"+token] = &response
}

func requestFingerprint(c *call) string {
	parameters := c.Form.Map()
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if name != "ClientToken" {
			fmt.Fprintf(sum, "%q=%q\n", name, parameters[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:32]
}
