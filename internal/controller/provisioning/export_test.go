package provisioning

import (
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// CheckPlansWith replaces the check of plans, so that a test can have one refused.
func (p *Provisioner) CheckPlansWith(by func(solve.Problem, solve.Plan) []check.Violation) {
	p.checkPlan = by
}
