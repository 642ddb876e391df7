package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

// start starts commands and returns how many (disruption 17). It holds the nodes of all commands, validates
// them against the API server, creates replacements, and only then marks the nodes as being removed. One
// command that fails does not stop the others.
func (d *Disruption) start(ctx context.Context, decided disruption.View, offers map[string][]catalog.InstanceType, decision disruption.Decision) (int, error) {
	started, failed := 0, []error{}
	var held []disruption.Command
	for _, c := range decision.Commands {
		recordProgress(ctx)
		switch {
		case c.Decision == disruption.Reboot:
			// Back off before the watch has delivered the reboot, even if it failed. Otherwise the next pass
			// would conclude that reboots do not help this node.
			d.queue.recordBackoff(c.Reason, d.Now(), c.Remove...)
			if err := d.reboot(ctx, c, offers); err != nil {
				failed = append(failed, err)
			} else {
				started++
			}
		case d.canStart(ctx, &c):
			d.logCommandStart(ctx, c, decided, decision)
			c, err := d.holdNodes(ctx, c)
			failed = append(failed, err)
			if len(c.Remove) > 0 {
				held = append(held, c)
			}
		}
	}
	if len(held) == 0 {
		return started, errors.Join(failed...)
	}
	live, unread := d.listLivePods(ctx, held)
	fresh := d.Store.Disruption(offers)
	for i := range held {
		d.releaseObjected(ctx, &held[i], disruption.Revalidate(held[i], decided, fresh, live), live)
	}
	faults := d.validateMoves(ctx, held, fresh)
	for _, i := range slices.Sorted(maps.Keys(faults)) {
		d.releaseObjected(ctx, &held[i], []disruption.Objection{{Candidate: held[i].Remove[0], Category: disruption.Scheduling, Text: faults[i]}}, live)
	}
	beyond := disruption.OverBudget(held, fresh)
	for _, i := range slices.Sorted(maps.Keys(beyond)) {
		d.releaseObjected(ctx, &held[i], beyond[i], live)
	}
	for _, c := range held {
		recordProgress(ctx)
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

// canStart reports whether a command may start: none of its nodes is part of a running command, and its pools
// are not backed off.
func (d *Disruption) canStart(ctx context.Context, c *disruption.Command) bool {
	for _, n := range c.Remove {
		if d.queue.isRemoving(n.Claim) {
			log.FromContext(ctx).V(1).Info("node is part of a running command", "Node", klog.KRef("", n.Node), "NodeClaim", klog.KRef("", n.Claim))
			d.queue.recordBackoff(c.Reason, d.Now(), c.Remove...)
			return false
		}
	}
	if slices.ContainsFunc(c.Template, d.poolBackedOff) {
		log.FromContext(ctx).V(1).Info("nothing is bought from the NodePool for a while", "NodePools", c.Template)
		d.queue.recordBackoff(c.Reason, d.Now(), c.Remove...)
		return false
	}
	return len(c.Remove) > 0
}

// holdNodes holds the nodes of a command. If one cannot be held, a command with replacements is given up, since
// they were planned for all nodes. A command without replacements goes on with the rest.
func (d *Disruption) holdNodes(ctx context.Context, c disruption.Command) (disruption.Command, error) {
	failed := d.forEach(len(c.Remove), func(i int) error { return d.holdNode(ctx, c.Remove[i], c.Token(), c.Reason) })
	var lost []disruption.Candidate
	for i, n := range c.Remove {
		if failed[i] != nil {
			lost = append(lost, n)
			log.FromContext(ctx).Error(failed[i], "node stays", "Node", klog.KRef("", n.Node))
		}
	}
	d.queue.recordBackoff(c.Reason, d.Now(), lost...)
	if len(lost) > 0 && c.Replacements() > 0 {
		lost = c.Remove
	}
	c = c.Without(func(n disruption.Candidate) bool {
		return slices.ContainsFunc(lost, func(l disruption.Candidate) bool { return l.Claim == n.Claim })
	})
	return c, errors.Join(append(conflictErrors(failed), d.releaseHolds(ctx, lost))...)
}

// conflictErrors keeps only write conflicts. All other errors were logged already.
func conflictErrors(list []error) []error {
	return slices.DeleteFunc(slices.Clone(list), func(err error) bool { return err == nil || !onlyConflicts(err) })
}

// orderAndQueue creates the replacements of a command and hands it to the queue.
func (d *Disruption) orderAndQueue(ctx context.Context, c disruption.Command, decided, fresh disruption.View) error {
	created, err := d.createReplacements(ctx, c, decided, fresh)
	r := disruption.Running{Command: c, InitializedClaims: map[string]bool{}}
	planned := map[cluster.PodKey]string{}
	for _, made := range created {
		if made.Claim != nil {
			r.ReplacementClaims = append(r.ReplacementClaims, made.Claim.Name)
			for _, pod := range made.Node.Pods {
				planned[pod] = made.Claim.Name
			}
		}
	}
	if err != nil {
		d.queue.recordBackoff(c.Reason, d.Now(), c.Remove...)
		d.deleteReplacements(ctx, created)
		d.rollBack(ctx, r)
		if !errors.Is(err, execute.ErrOutdated) { // the next one sees what others took
			d.recordDriftFailure(c)
		}
		d.recordOutcome(c, "given up: "+err.Error())
		return err
	}
	d.nominate(c, planned)
	for _, b := range c.Bind {
		planned[b.Pod] = b.Node
	}
	d.Store.Replace(nodesIn(c), planned) // not before the order: pods would get a second place (disruption 17)
	d.countDecision(c)
	entry := d.queue.addCommand(r)
	defer wakeLoop(d.queue.wake) // also if nothing is waited for: what cannot be deleted now is tried again there
	if len(r.ReplacementClaims) == 0 {
		return d.advance(ctx, entry)
	}
	return nil
}

// createReplacements creates the claims of the replacements. It checks limits again, and whether another loop
// has created a node for the same pods since the decision: they may have left the nodes of the command.
func (d *Disruption) createReplacements(ctx context.Context, c disruption.Command, decided, fresh disruption.View) ([]execute.Created, error) {
	if c.Replacements() == 0 {
		return nil, nil
	}
	if d.Claims == nil || decided.Cluster == nil || fresh.Cluster == nil {
		return nil, errors.New("replacements cannot be ordered now")
	}
	batch := execute.Batch{
		Nodes: slices.Clone(c.Create), Pools: map[string]*karpv1.NodePool{}, Lanes: fresh.Cluster.Resources, Version: decided.Cluster.Version,
		Reason: strings.ToLower(string(c.Reason)), Command: c.Token(), Marks: c.Marks(),
	}
	for _, pool := range d.Store.Pools() {
		batch.Pools[pool.Name] = pool
	}
	for _, name := range c.Template {
		pool := batch.Pools[name]
		if pool == nil {
			return nil, fmt.Errorf("nodepool %s is gone", name)
		}
		node, err := execute.FromTemplate(pool, fresh.Cluster.Words, fresh.Cluster.Resources)
		if err != nil {
			return nil, err
		}
		batch.Nodes = append(batch.Nodes, node)
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

// deleteReplacements deletes the replacements of a command that did not get all of them. Otherwise each attempt
// would leave some behind. One that cannot be deleted becomes an ordinary node.
func (d *Disruption) deleteReplacements(ctx context.Context, created []execute.Created) {
	failed := d.forEach(len(created), func(i int) error {
		claim := created[i].Claim
		if claim == nil {
			return nil
		}
		return client.IgnoreNotFound(d.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}))
	})
	if err := errors.Join(failed...); err != nil {
		log.FromContext(ctx).Error(err, "deleting replacements failed; they stay as ordinary nodes")
	}
}

// nominate reserves the nodes that pods are planned onto, and emits events on the pods.
func (d *Disruption) nominate(c disruption.Command, planned map[cluster.PodKey]string) {
	until := d.Now().Add(d.Nomination)
	say := func(key cluster.PodKey, place string) {
		if pod := d.Store.Pod(key); pod != nil {
			d.Events.Emit(pod, nominatedOn(place))
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
func (d *Disruption) reboot(ctx context.Context, c disruption.Command, offers map[string][]catalog.InstanceType) error {
	if d.Reboot == nil {
		return fmt.Errorf("reboot %s: nobody here can reboot nodes", names(c.Remove))
	}
	for _, o := range disruption.OverBudget([]disruption.Command{c}, d.Store.Disruption(offers))[0] {
		return fmt.Errorf("reboot %s: %s", o.Node, o.Text)
	}
	d.logCommandStart(ctx, c, disruption.View{}, disruption.Decision{})
	if err := d.Reboot(ctx, c); err != nil {
		return fmt.Errorf("reboot %s: %w", names(c.Remove), err)
	}
	d.countDecision(c)
	d.recordOutcome(c, "reboot requested")
	return nil
}
