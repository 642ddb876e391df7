package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// sourceFlags say which cluster a question is about. All commands that ask one share them.
type sourceFlags struct {
	scenario string
}

func (f *sourceFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.scenario, "scenario", "", "ask about the cluster in this snapshot file, or - for standard input")
}

// open returns what answers questions about the cluster.
func (f *sourceFlags) open(_ context.Context, s Streams) (inspect.Service, error) {
	if f.scenario == "" {
		return nil, usagef("name a snapshot with --scenario")
	}
	data, err := readScenario(f.scenario, s.In)
	if err != nil {
		return nil, usageError{err}
	}
	file, err := snapshot.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s is not a snapshot: %w", f.scenario, err)
	}
	return &snapshot.Service{File: file, Words: awsv1.Vocabulary()}, nil
}
