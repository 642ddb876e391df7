package aws

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	unhealthyAfter   = 30 * time.Minute // how long a node may be unhealthy (LC-41)
	hardwarePatience = 10 * time.Minute // and one whose accelerators are
	anyReason        = ".*"
)

// Repairs are the conditions that the kubelet and the monitoring agent of EKS set (V15-67). All of them
// lead to a replacement, and with a forced drain once that runs.
func (p *provider) Repairs() []cloud.Repair {
	replace := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reasons string, tolerated time.Duration) cloud.Repair {
		return cloud.Repair{Condition: kind, Status: status, ReasonRegex: reasons, Toleration: tolerated, Bound: new(time.Duration(0)), Action: cloud.ReplaceNode}
	}
	return []cloud.Repair{
		replace(corev1.NodeReady, corev1.ConditionFalse, "", unhealthyAfter), // the fallback
		replace(corev1.NodeReady, corev1.ConditionUnknown, anyReason, unhealthyAfter),
		replace("AcceleratedHardwareReady", corev1.ConditionFalse, anyReason, hardwarePatience),
		replace("StorageReady", corev1.ConditionFalse, anyReason, unhealthyAfter),
		replace("NetworkingReady", corev1.ConditionFalse, anyReason, unhealthyAfter),
		replace("KernelReady", corev1.ConditionFalse, anyReason, unhealthyAfter),
		replace("ContainerRuntimeReady", corev1.ConditionFalse, anyReason, unhealthyAfter),
	}
}

// Reboot reboots the instance of a claim. EC2 takes no token for it: who repeats it too late reboots
// twice, so a repetition is only made while no new boot was seen.
func (p *provider) Reboot(ctx context.Context, claim *karpv1.NodeClaim, _ string) error {
	instance, err := instanceOf(cloud.ID(claim.Status.ProviderID))
	if err != nil {
		return err
	}
	return p.inventory.Reboot(ctx, instance)
}
