package disrupt_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// repairScript is what lines say about repair. Policies stay until others are written.
type repairScript struct {
	facts    *facts
	policies []cloud.Repair
}

func (c *repairScript) commands() []script.Command {
	return []script.Command{
		{Name: "policies", Do: c.reference, Usage: "policies: those of the reference provider (V15-68)"},
		{Name: "remedy", Do: c.remedy, Usage: "remedy CONDITION status=True [regex=text] [after=30s] [bound=45s] [priority=10] [reboot]: one more"},
		{Name: "unhealthy", Do: c.markUnhealthy, Usage: "unhealthy NODE… condition=Ready status=Unknown [reason=text] [ago=40m] [vetoed] [reboots=2] [rebooted=5m] [period=1h] [terminatefirst]"},
	}
}

// reference are the policies of V15-68.
func (c *repairScript) reference(*script.World, *script.Line) string {
	c.policies = []cloud.Repair{
		{Condition: corev1.NodeReady, Status: corev1.ConditionFalse, Toleration: 10 * time.Minute, Bound: new(time.Duration(0)), Action: cloud.ReplaceNode},
		{Condition: corev1.NodeReady, Status: corev1.ConditionUnknown, ReasonRegex: ".*", Toleration: 10 * time.Minute, Bound: new(time.Duration(0)), Action: cloud.ReplaceNode},
		{Condition: "KWOKUnhealthy", Status: corev1.ConditionTrue, ReasonRegex: ".*", Toleration: 30 * time.Second, Bound: new(45 * time.Second), Action: cloud.ReplaceNode},
		{Condition: "KWOKRebootRequired", Status: corev1.ConditionTrue, ReasonRegex: ".*", Toleration: 30 * time.Second, Bound: new(time.Minute), Action: cloud.RebootNode},
	}
	return ""
}

func (c *repairScript) remedy(_ *script.World, l *script.Line) string {
	p := cloud.Repair{
		Status: corev1.ConditionStatus(l.Text("status")), ReasonRegex: l.Text("regex"), Toleration: span(l, "after"), Priority: l.Int("priority", 0), Action: cloud.ReplaceNode,
	}
	if text := l.Text("bound"); text != "" {
		bound, err := time.ParseDuration(text)
		if err != nil {
			l.Failf("bound=%s is no duration", text)
		}
		p.Bound = &bound
	}
	if l.Flag("reboot") {
		p.Action = cloud.RebootNode
	}
	for _, name := range l.Bare() {
		p.Condition = corev1.NodeConditionType(name)
		c.policies = append(c.policies, p)
	}
	return ""
}

func (c *repairScript) markUnhealthy(_ *script.World, l *script.Line) string {
	set, err := disrupt.NewRepairSet(c.policies)
	if err != nil {
		return err.Error() + "\n"
	}
	condition := corev1.NodeCondition{Type: corev1.NodeConditionType(l.Text("condition")), Status: corev1.ConditionStatus(l.Text("status")), Reason: l.Text("reason")}
	ago, rebooted, period, reboots := span(l, "ago"), span(l, "rebooted"), span(l, "period"), l.Int("reboots", 0)
	vetoed, first := l.Flag("vetoed"), l.Flag("terminatefirst")
	names := map[string]bool{}
	for _, name := range l.Bare() {
		names[name] = true
	}
	c.facts.general = append(c.facts.general, func(v *disrupt.View) {
		v.Repairs, v.Methods.Repair, v.Methods.TerminateFirstRepair = set, true, first
		condition.LastTransitionTime = metav1.NewTime(v.Now.Add(-ago))
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if !names[n.Name] {
				continue
			}
			n.Health = append(n.Health, condition)
			n.DoNotRepair, n.Reboots, n.Bounded, n.Bound = vetoed, reboots, period > 0, period
			if rebooted > 0 {
				n.Rebooted = v.Now.Add(-rebooted)
			}
		}
	})
	return ""
}
