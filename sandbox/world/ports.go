package world

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// ports are those of the last start on a folder, so that a kubeconfig, an aws.env that was sourced, and nodes that were
// told an endpoint go on after the next one.
type ports struct {
	API int `json:"api"`
	AWS int `json:"aws"`
}

func (w *World) portsFile() string { return filepath.Join(w.dir, "ports.json") }

// recallPorts fills in the ports of the last start where none is requested, as far as they are free.
func (w *World) recallPorts(ctx context.Context, o *Options) {
	var last ports
	text, err := os.ReadFile(w.portsFile())
	if err != nil || json.Unmarshal(text, &last) != nil {
		return // the first start, or one that was killed while it wrote
	}
	for into, port := range map[*int]int{&o.Port: last.API, &o.AWSPort: last.AWS} {
		if *into == 0 && isFree(ctx, port) {
			*into = port
		}
	}
}

func (w *World) savePorts() error {
	text, err := json.Marshal(ports{API: portOf(w.ControlPlane.Config.Host), AWS: portOf(w.AWSEndpoint)})
	if err != nil {
		return err
	}
	return os.WriteFile(w.portsFile(), text, 0o600)
}

// portOf is the port in an address; 0 if there is none.
func portOf(address string) int {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		return 0
	}
	return port
}

// isFree reports whether a port can be listened on now.
func isFree(ctx context.Context, port int) bool {
	listener, err := listenLocally(ctx, port)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func listenLocally(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
