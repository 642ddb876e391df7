package config

// compare checks settings of the core against each other. A setting that has a fault already is left out.
func compare(c Config, found map[string]given, f *findings) {
	relate := func(flag, relation, other string, holds bool) {
		if holds || f.refused(flag) || f.refused(other) {
			return
		}
		f.refuse(found[flag], relation+" --"+other+", which is "+found[other].text)
	}
	relate("health-probe-port", "a port other than", "metrics-port",
		c.Server.HealthProbePort != c.Server.MetricsPort || c.Server.MetricsPort == 0)
	relate("leader-election-renew-deadline", "less than", "leader-election-lease-duration",
		c.Leader.RenewDeadline < c.Leader.LeaseDuration)
	// The lease client stretches the pause by up to a fifth and refuses a deadline that has no room.
	relate("leader-election-retry-period", "less than 5/6 of", "leader-election-renew-deadline",
		c.Leader.RenewDeadline-c.Leader.RetryPeriod > c.Leader.RetryPeriod/5)
	relate("batch-idle-duration", "at most", "batch-max-duration", c.Batch.Idle <= c.Batch.Max)
}

// adviseAgainst points out what is allowed and probably not meant.
func adviseAgainst(c Config, found map[string]given, f *findings) {
	if c.Compat.LegacyNodeRepair && !c.Gates.NodeRepair {
		f.warn(found["legacy-node-repair"], "does nothing without gate NodeRepair")
	}
	if c.Gates.TerminateFirstRepair && !c.Gates.NodeRepair {
		f.warn(found["feature-gates"], "gate TerminateFirstRepair does nothing without gate NodeRepair")
	}
	if c.Server.Console && !c.Server.Decisions {
		f.warn(found["serve-console"], "the page shows nothing with --serve-decisions=false")
	}
	if c.Scheduling.SpotPoolShare >= 1 {
		f.warn(found["spot-pool-share"], "a share of 1 or more bounds nothing; a quarter is 0.25")
	}
	if c.Scheduling.SpotSpreadMaxCost >= 1 {
		f.warn(found["spot-spread-max-cost"], "a share of 1 or more lets spot nodes cost twice as much; 3 % is 0.03")
	}
	if c.Disruption.MinSaving >= 1 {
		f.warn(found["consolidation-min-saving"], "no replacement saves a share of 1 or more, so none is ever made; a fifth is 0.2")
	}
	if d := c.Disruption; d.PodCost > d.Horizon.Hours() { // USD against what a dollar an hour comes to
		f.warn(found["consolidation-pod-cost"], "not even a dollar an hour pays for moving one pod within --consolidation-horizon, which is "+d.Horizon.String()+
			": hardly any node with pods will be consolidated")
	}
}
