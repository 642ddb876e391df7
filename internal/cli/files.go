package cli

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// readFile reads a file that a flag names; - is standard input.
func readFile(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	if in == nil {
		return nil, errors.New("standard input is closed")
	}
	return io.ReadAll(in)
}

func fileName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readSnapshot reads a snapshot. A file that cannot be read, or is none, is a wrong call: another one has to be named.
func readSnapshot(name string, in io.Reader) (*snapshot.File, error) {
	data, err := readFile(name, in)
	if err != nil {
		return nil, usageError{err}
	}
	return decodeSnapshot(name, data)
}

// decodeSnapshot reads the contents of a file as a snapshot.
func decodeSnapshot(name string, data []byte) (*snapshot.File, error) {
	switch {
	case snapshot.Is(data):
	case scenario.Is(data):
		return nil, usagef("%s is a scenario, which only dovetail plan reads; dovetail snapshot -o FILE writes a snapshot of a cluster", fileName(name))
	default:
		return nil, usagef("%s is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes a snapshot of a cluster", fileName(name))
	}
	file, err := snapshot.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, usagef("%s is a malformed snapshot: %w; take it again with dovetail snapshot -o FILE", fileName(name), err)
	}
	return file, nil
}

// decodeScenario reads the contents of a file as a scenario.
func decodeScenario(name string, data []byte) (*scenario.Scenario, error) {
	sc, err := scenario.Load(data, cloudWords())
	switch {
	case err == nil:
		return sc, nil
	case scenario.Is(data):
		return nil, usagef("%s is a malformed scenario:\n%w", fileName(name), err)
	}
	return nil, usagef("%s is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes a snapshot of a cluster, and docs/reference/scenario.md describes scenarios:\n%w", fileName(name), err)
}
