package fakenode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// portForward connects streams of the API server with ports of a pod. Each connection is two streams with one request id:
// one for data, one for what went wrong.
func (s *Simulator) portForward(w http.ResponseWriter, r *http.Request) {
	p, found := s.podOf(w, r)
	if !found {
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	streams := make(chan httpstream.Stream)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		select {
		case streams <- stream:
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	})
	if connection == nil {
		return // it has responded
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { _ = connection.Close() }() // the other side may have done so
	waiting := map[string]httpstream.Stream{}
	for {
		select {
		case <-connection.CloseChan():
			return
		case stream := <-streams:
			id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
			other, both := waiting[id]
			if !both {
				waiting[id] = stream
				continue
			}
			delete(waiting, id)
			data, failures := stream, other
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				data, failures = other, stream
			}
			running.Go(func() {
				if err := s.forwardPort(r.Context(), p, data); err != nil {
					_, _ = fmt.Fprint(failures, err) // there is no other reader
				}
				_ = errors.Join(data.Close(), failures.Close())
				connection.RemoveStreams(data, failures)
			})
		}
	}
}

// forwardPort copies between a stream and what listens on the port that it names, until one of them ends.
func (s *Simulator) forwardPort(ctx context.Context, p *corev1.Pod, data httpstream.Stream) error {
	port, err := strconv.ParseInt(data.Headers().Get(corev1.PortHeader), 10, 32)
	if err != nil {
		return fmt.Errorf("port: %w", err)
	}
	address := ""
	if r := s.runOf(p); r != nil {
		if process := r.liveProcess(); process != nil {
			address = process.Address(int32(port))
		}
	}
	if address == "" {
		return fmt.Errorf("nothing listens on port %d of pod %s/%s", port, p.Namespace, p.Name)
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("port %d of pod %s/%s: %w", port, p.Namespace, p.Name, err)
	}
	go func() { // it ends no later than the stream, which ends with the connection of the API server
		_, _ = io.Copy(connection, data) // the client went, or the server has had enough
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, err = io.Copy(data, connection)
	return errors.Join(err, connection.Close())
}

// Addresses are where a port of the pods that run with a label is reached from this machine, in order of their names.
func (s *Simulator) Addresses(namespace, label, value string, port int32) []string {
	byName := map[string]string{}
	for _, r := range s.runs.allRuns() {
		process := r.liveProcess()
		if process == nil || r.pod.Namespace != namespace || r.pod.Labels[label] != value {
			continue
		}
		if address := process.Address(port); address != "" {
			byName[r.pod.Name] = address
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list
}
