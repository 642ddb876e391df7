package inspect

// PlanPasses is PlanOf with fewer passes.
func PlanPasses(c *Cluster, passes int) Changes { return planPasses(c, passes, nil) }
