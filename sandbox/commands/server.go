package commands

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Server forwards requests to an API server and records them.
type Server struct {
	Kubeconfig string // file of a user whose requests are recorded

	mu       sync.Mutex
	requests []Request
}

// Request is what a command requested.
type Request struct {
	Method, Path string
}

// String is such as GET /api/v1/pods.
func (r Request) String() string { return r.Method + " " + r.Path }

// Serve records the requests of the owner of a token; without a token, those of the user of the config.
func Serve(t *testing.T, to *rest.Config, token string) *Server {
	t.Helper()
	target, err := url.Parse(to.Host)
	if err != nil {
		t.Fatal(err)
	}
	to = rest.CopyConfig(to)
	if token != "" {
		to = rest.AnonymousClientConfig(to)
	}
	to.NextProtos = []string{"http/1.1"} // connections of port-forwards are taken over
	transport, err := rest.TransportFor(to)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	forward := &httputil.ReverseProxy{
		Transport: transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, ErrorLog: log.New(io.Discard, "", 0), // a command that ends cuts its requests
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, Request{req.Method, req.URL.Path})
		s.mu.Unlock()
		forward.ServeHTTP(w, req)
	}))
	t.Cleanup(server.CloseClientConnections)
	server.Config.ErrorLog = forward.ErrorLog
	config := clientcmdapi.NewConfig()
	config.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: "user"}
	config.CurrentContext = "sandbox"
	if err := clientcmd.WriteToFile(*config, s.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return s
}

// Take returns what was requested since it was called last.
func (s *Server) Take() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// Check fails a test if there are too many requests, or if one writes. Reviews of the user's own rights, tokens and
// port-forwards are created, and change nothing.
func Check(t *testing.T, what string, requests []Request, most int) {
	t.Helper()
	if len(requests) > most {
		t.Errorf("%s: %d requests to the API server, want %d at most: %q", what, len(requests), most, requests)
	}
	for _, r := range requests {
		if r.writes() {
			t.Errorf("%s writes: %s", what, r)
		}
	}
}

func (r Request) writes() bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	return !slices.ContainsFunc([]string{"/selfsubjectaccessreviews", "/selfsubjectrulesreviews", "/token", "/portforward"}, func(end string) bool { return strings.HasSuffix(r.Path, end) })
}
