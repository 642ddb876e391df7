package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// start starts commands and returns how many (disruption 17): hold the nodes of all of them, look again
// at the API server itself, order replacements, and only then say that the nodes go. One command that
// fails does not stop the others.
func (d *Disruption) start(ctx context.Context, decided disruption.View, offers map[string][]catalog.InstanceType, list []disruption.Command) (int, error) {
	started, failed := 0, []error{}
	var held []disruption.Command
	for _, c := range list {
		switch {
		case c.Decision == disruption.Reboot:
			if err := d.reboot(ctx, c); err != nil {
				failed = append(failed, err)
			} else {
				started++
			}
		case d.fit(ctx, &c):
			d.announce(ctx, c, decided)
			c, err := d.holdAll(ctx, c)
			failed = append(failed, err)
			if len(c.Remove) > 0 {
				held = append(held, c)
			}
		}
	}
	if len(held) == 0 {
		return started, errors.Join(failed...)
	}
	live, unread := d.look(ctx, held)
	fresh := d.Store.Disruption(offers)
	for i := range held {
		c := &held[i]
		if !d.stillHolds(ctx, c, decided, fresh, live, unread, i == 0) {
			continue
		}
		if err := d.commit(ctx, *c, fresh); err != nil {
			failed = append(failed, err)
			continue
		}
		started++
	}
	return started, errors.Join(append(failed, unread...)...)
}

// fit reports whether a command may be started: none of its nodes is part of another one, and none of
// them objected a moment ago. An Empty command goes on without those that did.
func (d *Disruption) fit(ctx context.Context, c *disruption.Command) bool {
	tired := d.queue.tired(d.Now())
	c.Remove = slices.Clone(c.Remove)
	if c.Reason == karpv1.ReasonEmpty {
		c.Remove = slices.DeleteFunc(c.Remove, func(n disruption.Candidate) bool { return !tired[n.Claim].IsZero() })
	}
	for _, n := range c.Remove {
		if d.queue.has(n.Claim) || !tired[n.Claim].IsZero() {
			log.FromContext(ctx).V(1).Info("node cannot be part of a command now", "Node", klog.KRef("", n.Node), "NodeClaim", klog.KRef("", n.Claim))
			return false
		}
	}
	return len(c.Remove) > 0
}

// holdAll holds the nodes of a command. If one cannot be held, a command with replacements is given up,
// as they were planned for all; another one goes on with the rest.
func (d *Disruption) holdAll(ctx context.Context, c disruption.Command) (disruption.Command, error) {
	failed := make([]error, len(c.Remove))
	each(len(c.Remove), func(i int) { failed[i] = d.hold(ctx, c.Remove[i], c.Token(), c.Reason) })
	var kept, lost []disruption.Candidate
	for i, n := range c.Remove {
		if failed[i] == nil {
			kept = append(kept, n)
			continue
		}
		lost = append(lost, n)
		log.FromContext(ctx).Error(failed[i], "node stays", "Node", klog.KRef("", n.Node))
	}
	if len(lost) > 0 && c.Replacements() > 0 {
		kept, lost = nil, c.Remove
	}
	c.Remove = kept
	return c, errors.Join(append(conflicts(failed), d.letGo(ctx, lost))...)
}

// conflicts leaves out what the log has already.
func conflicts(list []error) []error {
	return slices.DeleteFunc(slices.Clone(list), func(err error) bool { return err == nil || !onlyConflicts(err) })
}

// look reads the pods of all nodes from the API server, once the taints are known. A node that is
// missing in the answer could not be read.
func (d *Disruption) look(ctx context.Context, list []disruption.Command) (map[string][]disruption.Live, []error) {
	var nodes []disruption.Candidate
	for _, c := range list {
		nodes = append(nodes, c.Remove...)
	}
	d.awaitTaints(ctx, nodes)
	found, failed := make([][]disruption.Live, len(nodes)), make([]error, len(nodes))
	each(len(nodes), func(i int) {
		pods := &corev1.PodList{}
		if err := d.Reader.List(ctx, pods, client.MatchingFields{PodNodeName: nodes[i].Node}); err != nil {
			failed[i] = fmt.Errorf("list the pods of node %s: %w", nodes[i].Node, err)
			return
		}
		found[i] = make([]disruption.Live, 0, len(pods.Items))
		for j := range pods.Items {
			p := &pods.Items[j]
			found[i] = append(found[i], disruption.Live{
				Name: p.Namespace + "/" + p.Name, Moves: cluster.Reschedulable(p), EvictCost: cluster.EvictCost(p, d.CostManaged),
				Protected: p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && cluster.DoNotDisrupt(p, d.Now()),
			})
		}
	})
	live := map[string][]disruption.Live{}
	for i, n := range nodes {
		if failed[i] == nil {
			live[n.Node] = found[i]
		}
	}
	return live, slices.DeleteFunc(failed, func(err error) bool { return err == nil })
}

// stillHolds looks at a command again and releases the nodes that stay. It reports whether anything is
// left to do.
func (d *Disruption) stillHolds(ctx context.Context, c *disruption.Command, decided, fresh disruption.View, live map[string][]disruption.Live, unread []error, first bool) bool {
	objections := disruption.Again(*c, decided, fresh, live)
	if len(objections) == 0 && first {
		objections = d.recheck(c, fresh)
	}
	stays := map[string]bool{}
	for _, o := range objections {
		stays[o.Claim] = true
		d.queue.object(o.Claim, d.Now())
		log.FromContext(ctx).Info("node stays after all", "Node", klog.KRef("", o.Node), "NodeClaim", klog.KRef("", o.Claim), "category", o.Category, "reason", o.Text)
		if c.Reason == karpv1.ReasonUnderutilized {
			d.tell(ctx, []disruption.News{{Node: o.Node, Claim: o.Claim, Event: event.Event{
				Reason: event.ConsolidationRejected, Key: o.Category, Text: "The move was given up (" + o.Category + "): " + o.Text,
			}}})
		}
	}
	if len(objections) > 0 && c.Type != "" {
		d.Metrics.DisruptionFailedValidations.WithLabelValues(c.Type).Inc()
	}
	for _, n := range c.Remove {
		if _, read := live[n.Node]; !read && len(unread) > 0 {
			stays[n.Claim] = true
		}
	}
	if len(stays) == 0 {
		return true
	}
	goes, back := []disruption.Candidate{}, c.Remove
	if c.Reason == karpv1.ReasonEmpty {
		goes = slices.DeleteFunc(slices.Clone(c.Remove), func(n disruption.Candidate) bool { return stays[n.Claim] })
		back = slices.DeleteFunc(slices.Clone(c.Remove), func(n disruption.Candidate) bool { return !stays[n.Claim] })
	}
	if err := d.letGo(ctx, back); err != nil {
		log.FromContext(ctx).Error(err, "releasing nodes failed; the next pass tries again")
	}
	if c.Remove = goes; len(goes) == 0 {
		d.outcome(*c, "given up: a node stays after all")
	}
	return len(goes) > 0
}

// recheck has the move judged on the fresh view by rules that were written apart from those that found
// it. That is exact only if nothing else needs room, and if no other move was planned before it.
func (d *Disruption) recheck(c *disruption.Command, fresh disruption.View) []disruption.Objection {
	if c.Reason != karpv1.ReasonUnderutilized || fresh.Cluster == nil || len(fresh.Homeless) > 0 {
		return nil
	}
	names := make([]string, 0, len(c.Remove))
	for _, n := range c.Remove {
		names = append(names, n.Node)
	}
	faults := check.Move(solve.Question{View: fresh.Cluster, Candidates: names, Policy: d.Policy},
		solve.Move{Remove: names, Bind: c.Bind, Create: c.Create, Saves: c.Saves, Moved: c.Moved})
	faults = slices.DeleteFunc(faults, func(v check.Violation) bool { return v.Code == check.SavesWrong || v.Code == check.MovedWrong })
	if len(faults) == 0 {
		return nil
	}
	return []disruption.Objection{{Candidate: c.Remove[0], Category: disruption.Scheduling, Text: faults[0].String()}}
}

// commit orders the replacements of a command and says that its nodes go. From here on the queue has it.
func (d *Disruption) commit(ctx context.Context, c disruption.Command, fresh disruption.View) error {
	created, err := d.order(ctx, c, fresh)
	r := disruption.Running{Command: c, Up: map[string]bool{}}
	planned := map[cluster.PodKey]string{}
	for _, made := range created {
		if made.Claim != nil {
			r.Wait = append(r.Wait, made.Claim.Name)
			for _, pod := range made.Node.Pods {
				planned[pod] = made.Claim.Name
			}
		}
	}
	if err != nil {
		d.undo(ctx, r)
		d.setBack(c)
		d.outcome(c, "given up: "+err.Error())
		return err
	}
	nodes := make([]string, 0, len(c.Remove))
	for _, n := range c.Remove {
		nodes = append(nodes, n.Node)
	}
	d.Store.Replace(nodes, planned) // not before: pods would get a second place (disruption 17)
	d.nominate(c, planned)
	d.countDecision(c)
	entry := d.queue.add(r)
	if len(r.Wait) == 0 {
		return d.advance(ctx, entry)
	}
	nudge(d.queue.kick)
	return nil
}

// order writes the claims of the replacements. Limits are checked again there.
func (d *Disruption) order(ctx context.Context, c disruption.Command, fresh disruption.View) ([]execute.Created, error) {
	if c.Replacements() == 0 {
		return nil, nil
	}
	if d.Claims == nil || fresh.Cluster == nil {
		return nil, errors.New("replacements cannot be ordered now")
	}
	batch := execute.Batch{
		Nodes: slices.Clone(c.Create), Pools: map[string]*karpv1.NodePool{}, Lanes: fresh.Cluster.Resources, Version: fresh.Cluster.Version,
		Reason: strings.ToLower(string(c.Reason)), Command: c.Token(), Marks: c.Marks(),
	}
	for _, pool := range d.Store.Pools() {
		batch.Pools[pool.Name] = pool
	}
	for _, name := range c.Template {
		i := slices.IndexFunc(fresh.Cluster.Pools, func(p cluster.Pool) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("nodepool %s is gone", name)
		}
		batch.Nodes = append(batch.Nodes, solve.NewNode{Pool: name, Needs: fresh.Cluster.Pools[i].Requirements, Requests: fresh.Cluster.Resources.Zero()})
	}
	created := d.Claims.Create(ctx, batch)
	var failed []error
	for i := range created {
		failed = append(failed, created[i].Err)
	}
	return created, errors.Join(failed...)
}

// nominate says where pods are expected to go.
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
	for key, claim := range planned {
		say(key, "nodeclaim/"+claim)
	}
}

// reboot hands a command over to who carries out reboots (V15-34).
func (d *Disruption) reboot(ctx context.Context, c disruption.Command) error {
	if d.Reboot == nil {
		err := errors.New("nobody here can reboot nodes")
		log.FromContext(ctx).Error(err, "node is not rebooted", "nodes", names(c.Remove))
		return nil
	}
	d.announce(ctx, c, disruption.View{})
	if err := d.Reboot(ctx, c); err != nil {
		return fmt.Errorf("reboot %s: %w", names(c.Remove), err)
	}
	d.countDecision(c)
	d.outcome(c, "reboot requested")
	return nil
}
