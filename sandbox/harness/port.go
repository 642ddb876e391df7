package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports for processes that are ended and started again are below those that the kernel gives to connections and to
// processes that request any: while such a process is down another one would have its port.
const (
	firstPort   = 10_000
	portsOfOne  = 100 // that one process of tests may request
	portsBlocks = 200
)

var portsGiven atomic.Int32

// LastingPort is a free port that is still free when its process comes back. Processes that run
// beside each other start at different ones.
func LastingPort(ctx context.Context) (int, error) {
	block := firstPort + os.Getpid()%portsBlocks*portsOfOne
	var busy error
	for {
		given := int(portsGiven.Add(1))
		if given > portsOfOne {
			return 0, fmt.Errorf("no port from %d on is free: %w", block, busy)
		}
		port := block + given - 1
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			busy = err
			continue
		}
		return port, listener.Close()
	}
}
