package execute

import (
	"errors"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// DeniedPools names the NodePools of claims that the API server denied for good. Nothing is launched from them for a while,
// whatever the claims were for (FM A14).
func DeniedPools(created []Created) []string {
	var pools []string
	for i := range created {
		if created[i].Denied() {
			pools = append(pools, created[i].Node.Pool)
		}
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}

// Orders is what became of the replacements of a command.
func Orders(created []Created) command.Orders {
	out := command.Orders{Denied: DeniedPools(created)}
	var failed []error
	for i := range created {
		c := &created[i]
		if failed = append(failed, c.Err); c.Claim != nil {
			out.Created = append(out.Created, command.Replacement{Name: c.Claim.Name, UID: c.Claim.UID, Pods: c.Node.Pods})
		}
	}
	out.Err = errors.Join(failed...)
	out.Outdated = errors.Is(out.Err, ErrOutdated)
	return out
}
