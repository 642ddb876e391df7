package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
)

// Serve is the other side of controlplane.Process: it reads options from a line of in, runs a control plane until in ends,
// and reports it on out.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	input := bufio.NewReader(in)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no options on standard input: %w", err)
	}
	var o controlplane.Options
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("options on standard input: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, input) // until the process that started this one stops it, or ends
		cancel()
	}()
	var mu sync.Mutex
	report := func(m controlplane.Message) error {
		mu.Lock()
		defer mu.Unlock()
		return json.NewEncoder(out).Encode(m)
	}
	o.Progress = func(step string, took time.Duration) { _ = report(controlplane.Message{Step: step, Took: took}) } // no receiver
	cp, err := Start(ctx, o)
	if err != nil {
		return report(controlplane.Message{Failed: err.Error()})
	}
	if err := report(controlplane.Message{Ready: true, Version: cp.Version}); err != nil {
		return errors.Join(err, cp.Stop())
	}
	for {
		select {
		case err := <-cp.Err():
			_ = report(controlplane.Message{Failed: err.Error()}) // without a receiver, the input ends too
		case <-ctx.Done():
			return cp.Stop()
		}
	}
}
