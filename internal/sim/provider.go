package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// The market as a cloud.Provider, which is all that the controller sees of it.
var _ cloud.Provider = (*simCloud)(nil)

// scheme is how provider ids of the market begin.
const scheme = "sim:///"

func outOfOrder(op string) error {
	return &cloud.Error{Kind: cloud.Unknown, Op: op, Err: errors.New("the service is out of order")}
}

// lookUp finds an instance for an operation. The market is locked.
func (m *simCloud) lookUp(op, id string) (*instance, error) {
	if !strings.HasPrefix(id, scheme) {
		return nil, &cloud.Error{Kind: cloud.Invalid, Op: op, Message: fmt.Sprintf("%q is no id of the market", id)}
	}
	i, sure := m.find(id)
	switch {
	case !sure:
		return nil, outOfOrder(op)
	case i == nil:
		return nil, &cloud.Error{Kind: cloud.NotFound, Op: op, Err: errors.New("there is no such instance")}
	}
	return i, nil
}

// Types returns what every pool could launch, as the controller knows it.
func (m *simCloud) Types(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offers(), nil
}

// Launch launches the instance of a claim.
func (m *simCloud) Launch(_ context.Context, claim *karpv1.NodeClaim) (cloud.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch(claim)
}

// Find returns an instance that exists.
func (m *simCloud) Find(_ context.Context, id cloud.ID) (cloud.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.lookUp("find", string(id))
	if err != nil {
		return cloud.Instance{}, err
	}
	return m.describe(i), nil
}

// List returns every instance that exists, in the order of their ids.
func (m *simCloud) List(context.Context) ([]cloud.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.w.now.Before(m.mute) {
		return nil, outOfOrder("list")
	}
	var out []cloud.Instance
	for _, id := range sorted(m.byID) {
		out = append(out, m.describe(m.byID[id]))
	}
	return out, nil
}

// Terminate ends an instance, which takes a while.
func (m *simCloud) Terminate(_ context.Context, id cloud.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.lookUp("terminate", string(id))
	if err != nil {
		return err
	}
	if m.w.now.Before(m.refusing) {
		refusal := m.refusal
		return &refusal
	}
	m.terminate(i)
	return nil
}

// Drift finds nothing: there are no node classes that could change.
func (m *simCloud) Drift(context.Context, *karpv1.NodeClaim) (reason.Reason, error) {
	return reason.Reason{}, nil
}

// Repairs are the policies of the run.
func (m *simCloud) Repairs() []cloud.Repair { return slices.Clone(m.w.config.Repairs) }

// Reboot has the machine of a claim boot anew.
func (m *simCloud) Reboot(_ context.Context, claim *karpv1.NodeClaim, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.lookUp("reboot", claim.Status.ProviderID)
	switch {
	case err != nil:
		return err
	case m.w.now.Before(m.failing):
		return outOfOrder("reboot")
	case i.ending:
		return &cloud.Error{Kind: cloud.NotFound, Op: "reboot", Err: errors.New("the instance ends")}
	}
	m.reboot(i)
	return nil
}
