package overlays

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/overlay"
)

// Turn evaluates all overlays, writes their conditions, and returns when that is due again.
func (o *Overlays) Turn(ctx context.Context) (time.Duration, error) {
	o.mu.Lock()
	found, err := o.evaluate(ctx, nil)
	on := o.watched.on
	again := o.watched.again
	o.mu.Unlock()
	if err != nil {
		return o.state.Next(true), err
	}
	for i := range found.Objects {
		if wrote := o.writeStatus(ctx, &found.Objects[i], found.Verdicts[i]); wrote != nil {
			err = errors.Join(err, fmt.Errorf("write the status of NodeOverlay %s: %w", found.Objects[i].Name, wrote))
		}
	}
	if err != nil {
		return o.state.Next(true), err
	}
	if logUnevaluated(ctx, found.failed) {
		return o.state.Next(true), nil
	}
	if next := o.state.Next(false); on {
		return next, nil
	}
	return max(again.Sub(o.Now()), time.Second), nil
}

// writeStatus writes the conditions of one overlay if they changed.
func (o *Overlays) writeStatus(ctx context.Context, object *v1alpha1.NodeOverlay, v overlay.Verdict) error {
	change := condition.Change{Type: karpv1.ConditionValidationSucceeded, Status: metav1.ConditionTrue, Message: v.Message}
	if v.Reason != "" {
		change.Status, change.Reason = metav1.ConditionFalse, v.Reason
	}
	kind := condition.Kind{Root: karpv1.ConditionReady, Dependents: []string{karpv1.ConditionValidationSucceeded}}
	of := condition.Object{Generation: object.Generation, Created: object.CreationTimestamp}
	conditions := kind.Apply(object.Status.Conditions, of, metav1.NewTime(o.Now()), change)
	if slices.EqualFunc(conditions, object.Status.Conditions, func(a, b metav1.Condition) bool { return equality.Semantic.DeepEqual(a, b) }) {
		return nil
	}
	next := object.DeepCopy()
	next.Status.Conditions = conditions
	err := o.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if v.Reason != "" {
		log.FromContext(ctx).Info("not applying NodeOverlay", "NodeOverlay", object.Name, "reason", v.Reason, "because", v.Message)
	}
	o.Events.Flips(next, condition.Flips(object.Status.Conditions, conditions))
	return nil
}

// logUnevaluated says which pools have no instance types, if any. Why is on the pool or its class already.
func logUnevaluated(ctx context.Context, why error) bool {
	if why != nil {
		log.FromContext(ctx).V(1).Info("NodePool(s) are not evaluated: their instance types cannot be listed", "reason", why.Error())
	}
	return why != nil
}
