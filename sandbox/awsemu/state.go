package awsemu

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stateVersion is raised when an old snapshot can no longer be read.
const stateVersion = 2

// snapshot is everything that a restart must bring back.
type snapshot struct {
	Version int       `json:"version"`
	Now     time.Time `json:"now"`
	Model   *Model    `json:"model"`
	Rules   rules     `json:"rules"`
}

// Snapshot returns the whole state as JSON, in a fixed order.
func (e *Emulator) Snapshot() ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return json.MarshalIndent(e.takeSnapshot(), "", " ")
}

func (e *Emulator) takeSnapshot() snapshot {
	return snapshot{Version: stateVersion, Now: e.clock.Now(), Model: e.model, Rules: e.rules}
}

// Restore brings a snapshot back. The emulated time goes on from the snapshot if that was later than
// now, since time does not run backwards; what became due meanwhile happens at once.
func (e *Emulator) Restore(text []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.restore(text)
}

func (e *Emulator) restore(text []byte) error {
	s := snapshot{Rules: newRules()}
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("state: version %d is not known; this build reads version %d", s.Version, stateVersion)
	}
	if m := s.Model; m == nil || m.EC2 == nil || m.IAM == nil || m.SQS == nil || m.SSM == nil || m.EKS == nil {
		return fmt.Errorf("state: a part of the model is missing")
	}
	e.model, e.rules = s.Model, s.Rules
	e.linkCluster()
	e.buildCatalogue()
	if s.Now.After(e.clock.Now()) {
		e.clock.Set(s.Now, e.clock.Speed())
	}
	e.advanceModel(e.clock.Now())
	e.notifyChange()
	return nil
}

// registerState adds the control that exports and imports everything.
func (e *Emulator) registerState() {
	e.controls["state"] = control{
		http.MethodGet: func(*controlRequest) (any, error) { return e.takeSnapshot(), nil },
		http.MethodPut: func(r *controlRequest) (any, error) { return nil, e.restore(r.body) },
	}
}
