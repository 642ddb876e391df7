package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// refusalWait is how long the reason is awaited after a connection ended.
const refusalWait = time.Second

// forward carries connections to a port of a pod through the API server. Nothing listens on this machine, so that no other
// user of it can connect.
type forward struct {
	kube *rest.Config
	url  *url.URL
	port int32

	mu   sync.Mutex
	conn httpstream.Connection
	next int // number of the next connection
}

// open connects to the API server: over WebSocket, or over SPDY where a proxy or an old API server does not have that.
func (f *forward) open(ctx context.Context) error {
	web, err := portforward.NewSPDYOverWebsocketDialerForStreaming(f.url, f.kube)
	if err != nil {
		return err
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.kube)
	if err != nil {
		return err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, f.url)
	dialer := portforward.NewFallbackDialerForStreaming(web, old, func(error) bool { return ctx.Err() == nil })
	type result struct {
		conn httpstream.Connection
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		dialed <- result{conn, err}
	}()
	select {
	case r := <-dialed:
		f.conn = r.conn
		return r.err
	case <-ctx.Done():
		go func() {
			if r := <-dialed; r.err == nil {
				_ = r.conn.Close() // it is not used
			}
		}()
		return ctx.Err()
	}
}

func (f *forward) close() { _ = f.conn.Close() } // which fails if it is closed already

// dial opens a connection to the port. It implements the DialContext of an http.Transport.
func (f *forward) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	id := f.next
	f.next++
	f.mu.Unlock()
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(f.port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	failures, err := f.conn.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("the connection to the pod is lost: %w", err)
	}
	_ = failures.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := f.conn.CreateStream(headers)
	if err != nil {
		f.conn.RemoveStreams(failures)
		return nil, fmt.Errorf("the connection to the pod is lost: %w", err)
	}
	c := &streamConn{Stream: data, forward: f, failures: failures, refused: make(chan struct{})}
	go c.watchFailures()
	return c, nil
}

// streamConn is a connection to the port.
type streamConn struct {
	httpstream.Stream

	forward  *forward
	failures httpstream.Stream
	refused  chan struct{} // closed when why is set
	why      error
}

// watchFailures reads why the pod could not be reached, and ends the connection with that.
func (c *streamConn) watchFailures() {
	text, _ := io.ReadAll(c.failures) // a stream that breaks says nothing
	if len(text) > 0 {
		c.why = errors.New(string(text))
		_ = c.Stream.Reset()
	}
	close(c.refused)
}

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	late := time.NewTimer(refusalWait)
	defer late.Stop()
	select {
	case <-c.refused:
		if c.why != nil {
			return 0, c.why
		}
	case <-late.C:
	}
	return 0, err
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	err := c.Stream.Reset()
	c.forward.conn.RemoveStreams(c.Stream, c.failures)
	return err
}

// LocalAddr implements net.Conn.
func (c *streamConn) LocalAddr() net.Addr { return streamAddr{} }

// RemoteAddr implements net.Conn.
func (c *streamConn) RemoteAddr() net.Addr { return streamAddr{} }

// SetDeadline implements net.Conn. Requests end with their context, which closes the connection.
func (c *streamConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *streamConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }

type streamAddr struct{}

// Network implements net.Addr.
func (streamAddr) Network() string { return "portforward" }

// String implements net.Addr.
func (streamAddr) String() string { return "pod" }
