package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// starter starts the commands of a decision.
type starter struct {
	objects

	worker      *worker
	store       disruptStore
	claims      orderer
	backoff     launchBackoff // nil: none
	policy      solve.Policy
	costManaged bool
	rebooter    func(context.Context, disrupt.Command) error // nil: cannot be done
	metrics     *metric.Set
	now         func() time.Time
}

// start starts commands and returns how many (disruption 17). It holds the nodes of all commands, validates
// them against the API server, creates replacements, and only then marks the nodes as being removed. One
// command that fails does not stop the others.
func (s *starter) start(ctx context.Context, decided disrupt.View, offers map[string][]catalog.InstanceType, decision disrupt.Decision) (int, error) {
	started, failed := 0, []error{}
	var held []disrupt.Command
	for _, c := range decision.Commands {
		loop.RecordProgress(ctx)
		for _, effect := range s.worker.queue.step(func(q *command.Queue) []command.Effect { return q.Begin(c, s.poolBackedOff, s.now()) }) {
			switch e := effect.(type) {
			case command.RequestReboot:
				if err := s.reboot(ctx, e.Command, offers); err != nil {
					failed = append(failed, err)
				} else {
					started++
				}
			case command.Hold:
				s.worker.reporter.logCommandStart(ctx, e.Command, decided, decision)
				c, err := s.holdNodes(ctx, e.Command)
				failed = append(failed, err)
				if len(c.Remove) > 0 {
					held = append(held, c)
				}
			default:
				s.worker.reporter.report(ctx, effect)
			}
		}
	}
	if len(held) == 0 {
		return started, errors.Join(failed...)
	}
	live, unread := s.listLivePods(ctx, held)
	fresh := disrupt.View{DisruptionView: s.store.Disruption(offers)}
	for _, c := range s.validate(ctx, held, decided, fresh, live) {
		loop.RecordProgress(ctx)
		if len(c.Remove) == 0 {
			continue
		}
		if err := s.orderAndQueue(ctx, c, decided, fresh, offers); err != nil {
			failed = append(failed, err)
			continue
		}
		started++
	}
	return started, errors.Join(append(failed, unread...)...)
}

// holdNodes holds the nodes of a command, and returns the command without those that could not be held.
func (s *starter) holdNodes(ctx context.Context, c disrupt.Command) (disrupt.Command, error) {
	failed := forEach(s.metrics, len(c.Remove), func(i int) error { return s.worker.holder.holdNode(ctx, c.Remove[i], c.Token(), c.Reason) })
	lost := map[string]bool{}
	for i, n := range c.Remove {
		if failed[i] != nil {
			lost[n.Claim] = true
			log.FromContext(ctx).Error(failed[i], "node stays", "Node", klog.KRef("", n.Node))
		}
	}
	effects := s.worker.queue.step(func(q *command.Queue) (effects []command.Effect) {
		c, effects = q.Held(c, lost, s.now())
		return effects
	})
	return c, errors.Join(append(conflictErrors(failed), s.worker.perform(ctx, effects, nil))...)
}

// conflictErrors keeps only write conflicts. All other errors were logged already.
func conflictErrors(list []error) []error {
	return slices.DeleteFunc(slices.Clone(list), func(err error) bool { return err == nil || !onlyConflicts(err) })
}

// orderAndQueue creates the replacements of a command and hands it to the queue.
func (s *starter) orderAndQueue(ctx context.Context, c disrupt.Command, decided, fresh disrupt.View, offers map[string][]catalog.InstanceType) error {
	orders := s.createReplacements(ctx, c, decided, fresh, offers)
	s.reportOrder(ctx, c, orders)
	if orders.Err != nil {
		return orders.Err
	}
	defer loop.Wake(s.worker.queue.wake) // also if nothing is waited for: what cannot be deleted now is tried again there
	if len(orders.Created) == 0 {
		return s.worker.advance(ctx, c.Token())
	}
	return nil
}

// reportOrder records in the queue what was ordered for a command. The other loop does not advance the command before
// its nodes are marked as being removed.
func (s *starter) reportOrder(ctx context.Context, c disrupt.Command, orders command.Orders) {
	defer s.worker.queue.takeTurn(c.Token())()
	effects := s.worker.queue.step(func(q *command.Queue) []command.Effect {
		return q.Ordered(c, orders, s.now())
	})
	if err := s.worker.perform(ctx, effects, nil); err != nil {
		log.FromContext(ctx).Error(err, "undoing a command failed; the next pass tries again", "command", c.ID, "nodes", names(c.Remove))
	}
}

// createReplacements creates the claims of the replacements. It checks limits again, and whether another loop
// has created a node for the same pods since the decision: they may have left the nodes of the command.
func (s *starter) createReplacements(ctx context.Context, c disrupt.Command, decided, fresh disrupt.View, offers map[string][]catalog.InstanceType) command.Orders {
	if c.Replacements() == 0 {
		return command.Orders{}
	}
	if s.claims == nil || decided.Cluster == nil || fresh.Cluster == nil {
		return command.Orders{Err: errors.New("replacements cannot be ordered now")}
	}
	batch := execute.Batch{
		Pools: map[string]*karpv1.NodePool{}, Lanes: fresh.Cluster.Resources, Version: decided.Cluster.Version,
		Reason: strings.ToLower(string(c.Reason)), Command: c.Token(), Marks: c.Marks(),
	}
	for _, pool := range s.store.Pools() {
		batch.Pools[pool.Name] = pool
	}
	var err error
	batch.Nodes, err = command.Replacements(&c, func(name string) (solve.NewNode, error) {
		pool := batch.Pools[name]
		if pool == nil {
			return solve.NewNode{}, fmt.Errorf("nodepool %s is gone", name)
		}
		return execute.FromTemplate(pool, fresh.Cluster.Words, fresh.Cluster.Resources, offers[name])
	})
	if err != nil {
		return command.Orders{Err: err}
	}
	return execute.Orders(s.claims.Create(ctx, batch))
}

// reboot hands a command over to the reboot controller (V15-34), unless the budget was spent meanwhile.
func (s *starter) reboot(ctx context.Context, c disrupt.Command, offers map[string][]catalog.InstanceType) error {
	if s.rebooter == nil {
		return fmt.Errorf("reboot %s: this process cannot reboot nodes", names(c.Remove))
	}
	if node, why := command.RebootRefusal(&c, disrupt.View{DisruptionView: s.store.Disruption(offers)}); why != "" {
		return fmt.Errorf("reboot %s: %s", node, why)
	}
	s.worker.reporter.logCommandStart(ctx, c, disrupt.View{}, disrupt.Decision{})
	if err := s.rebooter(ctx, c); err != nil {
		return fmt.Errorf("reboot %s: %w", names(c.Remove), err)
	}
	s.worker.reporter.countDecision(c)
	s.worker.reporter.recordOutcome(c, "reboot requested")
	return nil
}

// poolBackedOff reports whether launches of a static pool are backed off.
func (s *starter) poolBackedOff(pool string) bool {
	return s.backoff != nil && s.backoff.PoolBackedOff(pool, s.now())
}
