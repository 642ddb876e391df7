package nodes

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// Commit carries out a command that reboots a node: it only writes the request down, Reconcile does the
// rest (V15-34). A claim that is terminating or rebooting is left alone; what was decided rests on an old
// view then, and the error is a conflict, as it is if another client writes the claim meanwhile.
func (r *Reboots) Commit(ctx context.Context, c disrupt.Command) error {
	n := c.Remove[0]
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	want, ok := reboot.Request(claim, c.Bound, c.Cause(), r.Now())
	if !ok {
		return apierrors.NewConflict(schema.GroupResource{Group: karpv1.Group, Resource: "nodeclaims"}, n.Claim, errors.New("it is terminating or rebooting already"))
	}
	// The bound first: a request without it would drain for ever.
	after, err := r.write(ctx, claim, want, false)
	if err != nil {
		return fmt.Errorf("request a reboot: %w", err)
	}
	r.Store.Rebooted(claim.UID)
	write.CountUnhealthy(r.Metrics, after, c.UnhealthyCondition(), lifecycle.BoundedMode(after, c.Bound))
	log.FromContext(ctx).Info("committed node reboot", "Node", klog.KRef("", n.Node), "NodeClaim", klog.KRef("", n.Claim), "cause", c.Cause())
	return nil
}
