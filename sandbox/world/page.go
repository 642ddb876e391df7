package world

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
)

const (
	metricsPort = 8080    // of the pods of the chart
	mostBody    = 1 << 20 // bytes of a request that browsers send
)

// ServeController serves the metrics port of the installed controller on loopback, and returns the address. Browsers reach the web
// page there, whichever replica leads, as with a Service in front of the pods.
func (w *World) ServeController(ctx context.Context, i Installation) (address string, err error) {
	i = i.withDefaults()
	return w.serve(ctx, 0, http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(answer, r.Body, mostBody))
		if err != nil {
			http.Error(answer, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		for _, replica := range w.Nodes.Addresses(i.Namespace, "app.kubernetes.io/name", release, metricsPort) {
			if relay(answer, r, "http://"+replica, body) {
				return
			}
		}
		http.Error(answer, "no replica of the controller leads yet; try again in a few seconds", http.StatusServiceUnavailable)
	}))
}

// relay sends a request to a replica, and its response back. It returns false, and has sent nothing back, if the replica does not
// respond or does not lead.
func relay(answer http.ResponseWriter, r *http.Request, replica string, body []byte) bool {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, replica+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return false
	}
	maps.Copy(request.Header, r.Header)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if _, standby := response.Header["Dovetail-Leader"]; standby {
		return false
	}
	maps.Copy(answer.Header(), response.Header)
	answer.WriteHeader(response.StatusCode)
	_, _ = io.Copy(answer, response.Body) // the browser may have gone
	return true
}
