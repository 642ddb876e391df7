package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/batch"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// maxFleetAttempts is how many fleets one launch requests before it gives up (S-004).
const maxFleetAttempts = 10

// ticket is one claim in the queue for a fleet.
type ticket struct {
	order   order
	recipes []recipe
	input   *ec2.CreateFleetInput // for one instance, without a token
	key     string                // tickets with equal keys request the same
	pods    int                   // addresses reserved in each subnet
	noRole  bool                  // an earlier round found that the account has no role for spot

	mu       sync.Mutex // a caller that gives up settles while a batch may still run
	release  []func()   // of templates
	subnets  []string   // with addresses set aside
	released bool
}

// completeTicket adds the request to a ticket and ensures that its templates exist.
func (l *Launcher) completeTicket(ctx context.Context, t *ticket, picks []pick) error {
	class := t.order.request.Class
	if len(picks) == 0 {
		return noCapacityError("no subnet of the node class in the available zones has free addresses; add subnets to EC2NodeClass " + class.Name)
	}
	var err error
	t.recipes, err = divideIntoRecipes(t.order, picks)
	l.measureUserData(ctx, class, t.recipes, err)
	if err != nil {
		return err
	}
	t.input = fleetRequest(t.order, t.recipes)
	text, err := json.Marshal(t.input)
	if err != nil {
		return &cloud.Error{Kind: cloud.Invalid, Op: "write fleet request", Err: err}
	}
	sum := sha256.Sum256(text)
	t.key = hex.EncodeToString(sum[:])
	return l.holdTemplates(ctx, t)
}

func (l *Launcher) holdTemplates(ctx context.Context, t *ticket) error {
	for _, r := range t.recipes {
		release, err := l.templates.holdTemplate(ctx, r.template)
		if err != nil {
			return asCloud("make launch template", err)
		}
		t.addRelease(release)
	}
	return nil
}

// addRelease adds the release of a template, or calls it at once if the ticket is released already.
func (t *ticket) addRelease(release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		release()
		return
	}
	t.release = append(t.release, release)
}

// releaseTicket returns the templates and addresses that a ticket holds, except in the subnet of the instance.
// It is idempotent.
func (l *Launcher) releaseTicket(t *ticket, used string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	for _, release := range t.release {
		release()
	}
	l.addresses.returnAddresses(slices.DeleteFunc(t.subnets, func(id string) bool { return id == used }), t.pods)
}

// ticketResult is the result of a ticket.
type ticketResult struct {
	result   Result
	err      error
	retryNow bool // something else can be tried at once
}

// runBatch sends a batch. Claims that find no capacity request at once what is left of their options, without a
// wait (S-004). Claims that are done get their result at once: until then a launched instance has no owner
// (G1).
func (l *Launcher) runBatch(ctx context.Context, tickets []*ticket, respond func(int, batch.Result[Result])) {
	waiting := map[int]*ticket{}
	for n, t := range tickets {
		waiting[n] = t
	}
	for round := 1; len(waiting) > 0; round++ {
		losers := l.sendRound(ctx, waiting, func(n int, v ticketResult) (done bool) {
			l.releaseTicket(waiting[n], v.result.Subnet)
			if v.retryNow && round < maxFleetAttempts && ctx.Err() == nil {
				return false
			}
			respond(n, batch.Result[Result]{Value: v.result, Err: v.err})
			return true
		})
		next := map[int]*ticket{}
		for _, n := range slices.Sorted(maps.Keys(losers)) { // the first to retry chooses among the subnets first
			t, failure := waiting[n], losers[n]
			again, err := l.prepareTicket(ctx, t.order.request, t.order.want)
			if err == nil {
				again.noRole = t.noRole
				next[n] = again
				continue
			}
			if !cloud.Is(err, cloud.NoCapacity) { // otherwise the error of EC2 is more useful than that nothing is left
				failure = err
			}
			respond(n, batch.Result[Result]{Err: failure})
		}
		waiting = next
	}
}

// sendRound sends one fleet for each set of equal tickets, all at the same time, and judges each as soon as its
// response arrives. It returns why those that are not done got nothing.
func (l *Launcher) sendRound(ctx context.Context, waiting map[int]*ticket, judge func(n int, v ticketResult) (done bool)) map[int]error {
	groups := map[string][]int{}
	// any order: each group is sorted below
	for n, t := range waiting {
		groups[t.key] = append(groups[t.key], n)
	}
	losers := map[int]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	// any order: they are sent at the same time
	for _, group := range groups {
		slices.Sort(group)
		var tickets []*ticket
		for _, n := range group {
			tickets = append(tickets, waiting[n])
		}
		all.Go(func() {
			for i, v := range l.sendFleet(ctx, tickets) {
				if !judge(group[i], v) {
					mu.Lock()
					losers[group[i]] = v.err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return losers
}

// sendFleet sends one fleet for equal tickets and deals out what it brings: each id once (A05).
func (l *Launcher) sendFleet(ctx context.Context, tickets []*ticket) []ticketResult {
	first := tickets[0]
	input := *first.input
	input.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{
		DefaultTargetCapacityType: first.order.target(), TotalTargetCapacity: new(int32(len(tickets))),
	}
	var uids []types.UID
	for _, t := range tickets {
		uids = append(uids, t.order.request.Claim.UID)
	}
	input.ClientToken = new(l.attempts.token(uids))
	response, err := l.o.EC2.CreateFleet(ctx, &input)
	if lostTemplate(response, err) {
		response, err = l.resendFleet(ctx, first, &input, uids)
	}
	verdicts := make([]ticketResult, len(tickets))
	if err != nil {
		if awserr.Refused(err) {
			for _, uid := range uids {
				l.attempts.countFailure(uid)
			}
		}
		if awserr.Code(err) == awserr.CodeParameterMismatch {
			err = &cloud.Error{Kind: cloud.Unknown, Op: "create fleet", Message: ErrTokenUsed.Error(), Err: fmt.Errorf("%w: %w", ErrTokenUsed, err)}
		}
		for n := range verdicts {
			verdicts[n].err = asCloud("create fleet", err)
		}
		return verdicts
	}
	learned := l.recordFleetErrors(first, response.Errors)
	learned.logUnavailable(log.FromContext(ctx))
	launched := first.fleetResults(response, l.o.Now())
	if len(launched) > len(tickets) {
		log.FromContext(ctx).Info("fleet launched more instances than requested; the surplus will be garbage collected", "requested", len(tickets), "delivered", len(launched))
	}
	for n, t := range tickets {
		t.noRole = t.noRole || learned.spotRoleMissing
		if n < len(launched) {
			verdicts[n].result = launched[n]
			verdicts[n].result.SpotRoleMissing = t.noRole
			if id := launched[n].Reservation; id != "" {
				l.o.Reservations.Took(id, string(t.order.request.Claim.UID))
			}
			continue
		}
		l.attempts.countFailure(t.order.request.Claim.UID)
		verdicts[n] = ticketResult{err: fleetFailure(response.Errors, len(launched), len(tickets)), retryNow: learned.retryNow}
	}
	return verdicts
}

// lostTemplate reports whether a fleet failed because a template was deleted meanwhile (A10).
func lostTemplate(response *ec2.CreateFleetOutput, err error) bool {
	if err != nil {
		return awserr.Code(err) == awserr.CodeTemplateNotFound
	}
	return len(response.Instances) == 0 && slices.ContainsFunc(response.Errors, func(e ec2types.CreateFleetError) bool {
		return value(e.ErrorCode) == awserr.CodeTemplateNotFound
	})
}

// resendFleet makes sure that the templates exist and sends the fleet again. EC2 may store the token together with
// the failure, so it uses another one: it is certain that nothing was launched.
func (l *Launcher) resendFleet(ctx context.Context, t *ticket, input *ec2.CreateFleetInput, uids []types.UID) (*ec2.CreateFleetOutput, error) {
	for _, r := range t.recipes {
		l.templates.recheckTemplate(r.name())
		release, err := l.templates.holdTemplate(ctx, r.template)
		if err != nil {
			return nil, err
		}
		t.addRelease(release)
	}
	for _, uid := range uids {
		l.attempts.countFailure(uid)
	}
	input.ClientToken = new(l.attempts.token(uids))
	return l.o.EC2.CreateFleet(ctx, input)
}
