package reboot_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// script is a shell that records the requests, and a cloud that says what the test has it say.
type script struct {
	cloud, write error

	did []string
}

func (s *script) Perform(_ context.Context, f *reboot.Facts, step reboot.Step) error {
	if step.Node != nil {
		f.Node = step.Node
	}
	if step.Claim != nil {
		s.did = append(s.did, "write")
		f.Claim = step.Claim
	}
	return s.write
}

func (s *script) Reboot(context.Context, *karpv1.NodeClaim, string) error {
	s.did = append(s.did, "call")
	return s.cloud
}

func (s *script) End(_ context.Context, _ reboot.Facts, step reboot.Step) error {
	if step.End != nil {
		s.did = append(s.did, step.End.Result)
	}
	if step.Delete {
		s.did = append(s.did, "delete")
	}
	return nil
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	invalid := &cloud.Error{Kind: cloud.Unsupported, Err: errors.New("bare metal")}
	throttled := &cloud.Error{Kind: cloud.Throttled, Err: errors.New("too many requests")}
	conflict := errors.New("conflict")
	for name, tc := range map[string]struct {
		script script
		facts  reboot.Facts
		want   string
		after  time.Duration
		err    error
	}{
		"V15-38 accepted: written, then waited for":            {facts: reboot.Facts{Claim: claim(), Node: node("old")}, want: "write call write", after: 15 * time.Second},
		"V15-38 what may work later is repeated with back-off": {script: script{cloud: throttled}, facts: reboot.Facts{Claim: claim(), Node: node("old")}, want: "write call", err: throttled},
		"V15-66 what cannot work ends the reboot":              {script: script{cloud: invalid}, facts: reboot.Facts{Claim: claim(), Node: node("old")}, want: "write call provider_error delete"},
		"a write that fails ends the pass":                     {script: script{write: conflict}, facts: reboot.Facts{Claim: claim(), Node: node("old")}, want: "write", err: conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shell, calls := tc.script, reboot.Calls{}
			tc.facts.Now = start.Add(time.Minute)
			after, err := reboot.Advance(t.Context(), tc.facts, &calls, &shell)
			if got := strings.Join(shell.did, " "); got != tc.want {
				t.Errorf("did %s, want %s", got, tc.want)
			}
			if after != tc.after || !errors.Is(err, tc.err) || err != nil && tc.err == nil {
				t.Errorf("Advance() = %s, %v, want %s, %v", after, err, tc.after, tc.err)
			}
		})
	}
}

// V15-38: the cloud has its time from the first call on, whatever passes and processes there are between. A call that
// cannot work is not repeated, and another reboot of the claim begins anew.
func TestRebootCallsAreRecorded(t *testing.T) {
	t.Parallel()
	down := errors.New("connection reset")
	log := reboot.CallLog{}
	advance := func(c *karpv1.NodeClaim, at time.Duration, shell *script) error {
		calls := log.Of(c.UID)
		_, err := reboot.Advance(t.Context(), reboot.Facts{Claim: c, Node: node("old"), Now: start.Add(at)}, &calls, shell)
		log.Record(c.UID, calls, start.Add(at))
		return err
	}
	c := claim(marked)
	if err := advance(c, time.Minute, &script{cloud: down}); !errors.Is(err, down) {
		t.Errorf("the first call: %v", err)
	}
	late := &script{cloud: down}
	if err := advance(c, time.Minute+reboot.CallTime, late); err != nil || !strings.Contains(strings.Join(late.did, " "), "provider_error") {
		t.Errorf("after %s: %v, %v", reboot.CallTime, late.did, err)
	}
	if log.Of(c.UID) != (reboot.Calls{}) {
		t.Error("calls of a reboot that is over are kept")
	}
	if err := advance(c, 3*time.Hour, &script{cloud: down}); !errors.Is(err, down) {
		t.Errorf("the next reboot: %v", err)
	}
}
