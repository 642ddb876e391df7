package awsemu

import (
	"cmp"
	"context"
	"crypto"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Options of an emulator.
type Options struct {
	Clock   *Clock
	Speed   float64 // how much faster than in AWS machines start and end, launches return and notices run out; 0 means 1
	Seed    uint64  // of ids and of everything that varies; the same calls get the same responses
	Fixture Fixture
}

// Fixture is what the emulated account looks like at the start.
type Fixture struct {
	Account           string
	Region            string
	Zones             []Zone
	Cluster           string
	ClusterEndpoint   string
	ClusterCA         string           // base64
	KubernetesVersion string           // such as 1.34
	TokenKey          crypto.PublicKey // that the tokens of the cluster's service accounts are signed with; without, none is believed
	Queue             string
	// Bare is an account that is not prepared for the cluster: no role, instance profile, OIDC provider, access entry or pod
	// identity association, and no queue.
	Bare bool
	// Families of instance types that there are; none means all. Reading the whole catalogue takes a client a
	// tenth of a second of a core, and a second under the race detector.
	Families []string
}

// Zone is an availability zone.
type Zone struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// Emulator is the emulated AWS. It is an http.Handler and safe for use by many goroutines.
type Emulator struct {
	clock      *Clock
	speed      float64
	fixture    Fixture
	operations map[wire.Service]map[string]operation
	controls   map[string]control
	catalogue  atomic.Pointer[catalogue.Catalogue] // replaced as a whole, so that it can be read without the lock

	mu        sync.Mutex // guards everything below
	random    *rand.Rand
	model     *Model
	calls     recorder
	rules     rules
	alarms    alarms
	documents map[string]*policy.Document // of policies, by their text; nil: it cannot be read
	changed   chan struct{}               // closed and replaced whenever the model changed
}

// Model is the state of the emulated account: each service owns its part.
type Model struct {
	EC2 *EC2State `json:"ec2"`
	IAM *IAMState `json:"iam"`
	SQS *SQSState `json:"sqs"`
	SSM *SSMState `json:"ssm"`
	EKS *EKSState `json:"eks"`
	FIS *FISState `json:"fis,omitempty"`
}

// operation is one call of a service. It runs with the emulator locked, unless it is long; then it
// locks by itself with call.locked.
type operation struct {
	run  func(*call) (any, error)
	long bool
	// mutating calls have a smaller budget when calls are throttled.
	mutating bool
}

// call is one request on its way through the emulator.
type call struct {
	*wire.Request
	gone <-chan struct{} // closed when the client does not wait any longer
	emu  *Emulator
	now  time.Time
}

// runLocked runs a part of a long operation with the emulator locked and the lifecycles up to date.
func (c *call) runLocked(run func(*Model) error) error {
	c.emu.mu.Lock()
	defer c.emu.mu.Unlock()
	c.now = c.emu.clock.Now()
	c.emu.advanceModel(c.now)
	return run(c.emu.model)
}

// New returns an emulator with its fixture in place.
func New(o Options) *Emulator {
	e := &Emulator{
		clock: o.Clock, speed: cmp.Or(max(o.Speed, 0), 1), fixture: o.Fixture, random: rand.New(rand.NewPCG(o.Seed, 0)),
		operations: map[wire.Service]map[string]operation{}, controls: map[string]control{}, documents: map[string]*policy.Document{}, changed: make(chan struct{}),
	}
	e.registerEC2()
	e.registerIAM()
	e.registerSTS()
	e.registerPodCredentials()
	e.registerSQS()
	e.registerSSM()
	e.registerPricing()
	e.registerEKS()
	e.registerEvents()
	e.registerZonalShift()
	e.registerFIS()
	e.registerRules()
	e.registerState()
	e.reset()
	return e
}

// reset brings the fixture back.
func (e *Emulator) reset() {
	e.model = &Model{}
	e.rules = newRules()
	now := e.clock.Now()
	e.resetSQS(now)
	e.resetSSM(now)
	e.resetEKS(now)
	e.resetIAM(now)
	e.resetEC2(now) // last: it refers to images, roles and queues
	e.linkCluster()
	e.notifyChange()
}

// linkCluster sets in the emulated EKS where the cluster is now: address and certificates are new with
// every start of a control plane, whatever a snapshot says.
func (e *Emulator) linkCluster() {
	cluster := &e.model.EKS.Cluster
	cluster.Endpoint, cluster.CA = e.fixture.ClusterEndpoint, e.fixture.ClusterCA
	cluster.VPC = e.model.EC2.VPC
	cluster.Subnets = slices.Sorted(maps.Keys(e.model.EC2.Subnets))
	cluster.SecurityGroup = stableID("sg-", "cluster")
}

// register adds an operation that only reads.
func (e *Emulator) register(s wire.Service, action string, run func(*call) (any, error)) {
	e.add(s, action, operation{run: run})
}

// registerMutating adds an operation that changes the model.
func (e *Emulator) registerMutating(s wire.Service, action string, run func(*call) (any, error)) {
	e.add(s, action, operation{run: run, mutating: true})
}

// registerLong adds an operation that waits and locks by itself.
func (e *Emulator) registerLong(s wire.Service, action string, run func(*call) (any, error)) {
	e.add(s, action, operation{run: run, long: true})
}

func (e *Emulator) add(s wire.Service, action string, op operation) {
	if e.operations[s] == nil {
		e.operations[s] = map[string]operation{}
	}
	e.operations[s][action] = op
}

// ServeHTTP serves one call.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, ours := strings.CutPrefix(r.URL.Path, controlPrefix); ours {
		e.serveControl(w, r, path)
		return
	}
	if r.URL.Path == CredentialsPath {
		e.serveCredentials(w, r)
		return
	}
	req, err := wire.Read(r, e.newID("req-"))
	if req == nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := &call{Request: req, gone: r.Context().Done(), emu: e}
	if err != nil {
		wire.Write(req, nil, err).Send(w)
		return
	}
	value, fault, record, err := e.handle(c)
	alarm := e.fireAlarm(record)
	if alarm != nil && alarm.Moment == BeforeResponse {
		alarm.run(record)
		panic(http.ErrAbortHandler) // the way of net/http to reset a connection
	}
	defer func() {
		if alarm != nil {
			alarm.run(record)
		}
	}()
	fault.send(w, wire.Write(req, value, err))
}

// handle runs the pipeline of one call.
func (e *Emulator) handle(c *call) (any, fault, Call, error) {
	op, known := e.operations[c.Service][c.Action]
	record, fault, err := e.receive(c)
	if alarm := e.stopBefore(record); alarm != nil {
		alarm.run(*record)
		panic(http.ErrAbortHandler)
	}
	if !known {
		err = wire.Errorf("InvalidAction", "%s:%s is not emulated", c.Service, c.Action)
	}
	if err == nil {
		err = fault.applyBeforeCall(c.gone)
	}
	var value any
	if err == nil {
		value, err = e.executeOperation(c, op)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	record.finishCall(err)
	return value, fault, *record, err
}

// receive records a call and judges it.
func (e *Emulator) receive(c *call) (*Call, fault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.now = e.clock.Now()
	record := e.calls.add(c, e.iamState().Sessions[c.Key].Role)
	fault, err := e.judgeCall(c)
	return record, fault, err
}

func (e *Emulator) executeOperation(c *call, op operation) (any, error) {
	if op.long {
		return op.run(c)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.now = e.clock.Now()
	e.advanceModel(c.now)
	value, err := op.run(c)
	if op.mutating {
		e.notifyChange()
	}
	return value, err
}

// advanceModel brings everything that changes by itself up to date: lifecycles, notices, queues. The
// emulator must be locked.
func (e *Emulator) advanceModel(now time.Time) {
	if e.advanceEC2(now) {
		e.notifyChange()
	}
}

// notifyChange notifies those who wait that the model changed. The emulator must be locked.
func (e *Emulator) notifyChange() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Run advances the emulated account while there are no calls, until the context ends.
func (e *Emulator) Run(ctx context.Context) error {
	for {
		e.mu.Lock()
		now := e.clock.Now()
		e.advanceModel(now)
		changed, next := e.changed, e.nextEC2(now)
		e.mu.Unlock()
		reached, stop := e.clock.Until(next)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-reached:
		case <-changed:
		}
		stop()
	}
}

// newID returns a fresh id such as i-0123456789abcdef0.
func (e *Emulator) newID(prefix string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nextID(prefix)
}

// nextID is newID for those who hold the lock.
func (e *Emulator) nextID(prefix string) string {
	var raw [9]byte
	for i := range raw {
		raw[i] = byte(e.random.UintN(256))
	}
	return prefix + hex.EncodeToString(raw[:])[:17]
}

// accountARN names a resource of the emulated account.
func (e *Emulator) accountARN(service, resource string) string {
	region := e.fixture.Region
	if service == "iam" || service == "sts" {
		region = ""
	}
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, region, e.fixture.Account, resource)
}
