// Command program is the process of a control plane: see controlplane.Process, which starts it and stops it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
)

func main() {
	// Ctrl-C reaches every process of a terminal. This one goes on until its parent stops it, after its clients.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	if err := embedded.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		os.Exit(1)
	}
}
