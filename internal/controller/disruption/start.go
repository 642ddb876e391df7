package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// start starts commands and returns how many (disruption 17). It holds the nodes of all commands, validates
// them against the API server, creates replacements, and only then marks the nodes as being removed. One
// command that fails does not stop the others.
func (d *Disruption) start(ctx context.Context, decided disrupt.View, offers map[string][]catalog.InstanceType, decision disrupt.Decision) (int, error) {
	started, failed := 0, []error{}
	var held []disrupt.Command
	for _, c := range decision.Commands {
		loop.RecordProgress(ctx)
		for _, effect := range d.queue.step(func(q *command.Queue) []command.Effect { return q.Begin(c, d.poolBackedOff, d.Now()) }) {
			switch e := effect.(type) {
			case command.RequestReboot:
				if err := d.reboot(ctx, e.Command, offers); err != nil {
					failed = append(failed, err)
				} else {
					started++
				}
			case command.Hold:
				d.logCommandStart(ctx, e.Command, decided, decision)
				c, err := d.holdNodes(ctx, e.Command)
				failed = append(failed, err)
				if len(c.Remove) > 0 {
					held = append(held, c)
				}
			default:
				d.report(ctx, effect)
			}
		}
	}
	if len(held) == 0 {
		return started, errors.Join(failed...)
	}
	live, unread := d.listLivePods(ctx, held)
	fresh := disrupt.View{DisruptionView: d.Store.Disruption(offers)}
	for _, c := range d.validate(ctx, held, decided, fresh, live) {
		loop.RecordProgress(ctx)
		if len(c.Remove) == 0 {
			continue
		}
		if err := d.orderAndQueue(ctx, c, decided, fresh); err != nil {
			failed = append(failed, err)
			continue
		}
		started++
	}
	return started, errors.Join(append(failed, unread...)...)
}

// holdNodes holds the nodes of a command, and returns the command without those that could not be held.
func (d *Disruption) holdNodes(ctx context.Context, c disrupt.Command) (disrupt.Command, error) {
	failed := d.forEach(len(c.Remove), func(i int) error { return d.holdNode(ctx, c.Remove[i], c.Token(), c.Reason) })
	lost := map[string]bool{}
	for i, n := range c.Remove {
		if failed[i] != nil {
			lost[n.Claim] = true
			log.FromContext(ctx).Error(failed[i], "node stays", "Node", klog.KRef("", n.Node))
		}
	}
	effects := d.queue.step(func(q *command.Queue) (effects []command.Effect) {
		c, effects = q.Held(c, lost, d.Now())
		return effects
	})
	return c, errors.Join(append(conflictErrors(failed), d.perform(ctx, effects, nil))...)
}

// conflictErrors keeps only write conflicts. All other errors were logged already.
func conflictErrors(list []error) []error {
	return slices.DeleteFunc(slices.Clone(list), func(err error) bool { return err == nil || !onlyConflicts(err) })
}

// orderAndQueue creates the replacements of a command and hands it to the queue.
func (d *Disruption) orderAndQueue(ctx context.Context, c disrupt.Command, decided, fresh disrupt.View) error {
	created, err := d.createReplacements(ctx, c, decided, fresh)
	var replacements []command.Replacement
	for _, made := range created {
		if made.Claim != nil {
			replacements = append(replacements, command.Replacement{Name: made.Claim.Name, UID: made.Claim.UID, Pods: made.Node.Pods})
		}
	}
	d.reportOrder(ctx, c, replacements, err)
	if err != nil {
		return err
	}
	defer loop.Wake(d.queue.wake) // also if nothing is waited for: what cannot be deleted now is tried again there
	if len(replacements) == 0 {
		return d.advance(ctx, c.Token())
	}
	return nil
}

// reportOrder tells the queue what was ordered for a command. The other loop does not advance the command before
// its nodes are marked as being removed.
func (d *Disruption) reportOrder(ctx context.Context, c disrupt.Command, created []command.Replacement, err error) {
	defer d.queue.takeTurn(c.Token())()
	effects := d.queue.step(func(q *command.Queue) []command.Effect {
		return q.Ordered(c, created, err, errors.Is(err, execute.ErrOutdated), d.Now())
	})
	if err := d.perform(ctx, effects, nil); err != nil {
		log.FromContext(ctx).Error(err, "undoing a command failed; the next pass tries again", "command", c.ID, "nodes", names(c.Remove))
	}
}

// createReplacements creates the claims of the replacements. It checks limits again, and whether another loop
// has created a node for the same pods since the decision: they may have left the nodes of the command.
func (d *Disruption) createReplacements(ctx context.Context, c disrupt.Command, decided, fresh disrupt.View) ([]execute.Created, error) {
	if c.Replacements() == 0 {
		return nil, nil
	}
	if d.Claims == nil || decided.Cluster == nil || fresh.Cluster == nil {
		return nil, errors.New("replacements cannot be ordered now")
	}
	batch := execute.Batch{
		Pools: map[string]*karpv1.NodePool{}, Lanes: fresh.Cluster.Resources, Version: decided.Cluster.Version,
		Reason: strings.ToLower(string(c.Reason)), Command: c.Token(), Marks: c.Marks(),
	}
	for _, pool := range d.Store.Pools() {
		batch.Pools[pool.Name] = pool
	}
	var err error
	batch.Nodes, err = command.Replacements(&c, func(name string) (solve.NewNode, error) {
		pool := batch.Pools[name]
		if pool == nil {
			return solve.NewNode{}, fmt.Errorf("nodepool %s is gone", name)
		}
		return execute.FromTemplate(pool, fresh.Cluster.Words, fresh.Cluster.Resources)
	})
	if err != nil {
		return nil, err
	}
	created := d.Claims.Create(ctx, batch)
	var failed []error
	for i := range created {
		failed = append(failed, created[i].Err)
		if d.LaunchBackoff != nil && created[i].Denied() {
			d.LaunchBackoff.RecordDenied(created[i].Node.Pool, d.Now())
		}
	}
	return created, errors.Join(failed...)
}

// deleteReplacements deletes the replacements of a command that did not get all of them.
func (d *Disruption) deleteReplacements(ctx context.Context, list []command.Replacement) {
	failed := d.forEach(len(list), func(i int) error {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: list[i].Name}}
		return client.IgnoreNotFound(d.Client.Delete(ctx, claim, client.Preconditions{UID: &list[i].UID}))
	})
	if err := errors.Join(failed...); err != nil {
		log.FromContext(ctx).Error(err, "deleting replacements failed; they stay as ordinary nodes")
	}
}

// commit marks the nodes of a command as being removed. That is not done before the order: pods would get a second
// place (disruption 17).
func (d *Disruption) commit(c disrupt.Command, planned map[cluster.PodKey]string) {
	d.nominate(c, planned)
	places := maps.Clone(planned)
	for _, b := range c.Bind {
		places[b.Pod] = b.Node
	}
	d.Store.Replace(nodesIn(c), places)
	d.countDecision(c)
}

// nominate reserves the nodes that pods are planned onto, and emits events on the pods.
func (d *Disruption) nominate(c disrupt.Command, planned map[cluster.PodKey]string) {
	until := d.Now().Add(d.Nomination)
	say := func(key cluster.PodKey, place string) {
		if pod := d.Store.Pod(key); pod != nil {
			d.Events.Emit(pod, execute.NominatedOn(place))
		}
	}
	done := map[string]bool{}
	for _, b := range c.Bind {
		if !done[b.Node] {
			done[b.Node] = true
			d.Store.Nominate(b.Node, until)
		}
		say(b.Pod, "node/"+b.Node)
	}
	for _, key := range slices.SortedFunc(maps.Keys(planned), cluster.PodKey.Compare) {
		say(key, "nodeclaim/"+planned[key])
	}
}

// reboot hands a command over to the reboot controller (V15-34), unless the budget was spent meanwhile.
func (d *Disruption) reboot(ctx context.Context, c disrupt.Command, offers map[string][]catalog.InstanceType) error {
	if d.Reboot == nil {
		return fmt.Errorf("reboot %s: nobody here can reboot nodes", names(c.Remove))
	}
	for _, o := range disrupt.OverBudget([]disrupt.Command{c}, disrupt.View{DisruptionView: d.Store.Disruption(offers)})[0] {
		return fmt.Errorf("reboot %s: %s", o.Node, o.Text)
	}
	d.logCommandStart(ctx, c, disrupt.View{}, disrupt.Decision{})
	if err := d.Reboot(ctx, c); err != nil {
		return fmt.Errorf("reboot %s: %w", names(c.Remove), err)
	}
	d.countDecision(c)
	d.recordOutcome(c, "reboot requested")
	return nil
}
