package fakenode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	logPause = 200 * time.Millisecond // between two looks at a log that is followed: a file has no watch
	podPause = 2 * time.Second        // between two looks at the pod whose log it is
)

// KubeletAPI is what the API server requests from kubelets, of all nodes at once: the logs of containers, and connections to
// their ports. It trusts every client that can connect. A simulated container has a log that says only that, and nothing listens on
// its ports. Serve it on Options.KubeletPort.
func (s *Simulator) KubeletAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	mux.HandleFunc("/portForward/{namespace}/{pod}", s.portForward)
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", s.portForward)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "of what a kubelet serves, the sandbox has only logs and forwarded ports", http.StatusNotImplemented)
	})
	return mux
}

func (s *Simulator) containerLogs(w http.ResponseWriter, r *http.Request) {
	p, found := s.podOf(w, r)
	if !found {
		return
	}
	var err error
	query := r.URL.Query()
	if refused := logRefusal(p, r.PathValue("container"), query.Get("previous") == "true"); refused != "" {
		http.Error(w, refused, http.StatusBadRequest)
		return
	}
	l := logRequest{follow: query.Get("follow") == "true", tail: -1, limit: -1, file: s.logFile(p, r.PathValue("container"), query.Get("previous") == "true")}
	for name, into := range map[string]*int64{"tailLines": &l.tail, "limitBytes": &l.limit} {
		if text := query.Get(name); text != "" {
			if *into, err = strconv.ParseInt(text, 10, 64); err != nil || *into < 0 {
				http.Error(w, fmt.Sprintf("%s: %q is no number of at least 0", name, text), http.StatusBadRequest)
				return
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	if err := s.writeLog(r.Context(), w, p, l); err != nil && r.Context().Err() == nil {
		s.Log.Warn("fakenode: logs", "pod", p.Namespace+"/"+p.Name, "error", err)
	}
}

// podOf is the pod that a request names; if it cannot be read, that is the response.
func (s *Simulator) podOf(w http.ResponseWriter, r *http.Request) (*corev1.Pod, bool) {
	p, err := s.Client.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("pod"), metav1.GetOptions{})
	if err != nil {
		status := http.StatusInternalServerError
		if apierrors.IsNotFound(err) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return nil, false
	}
	return p, true
}

// logRefusal says why a container has no log, in the words of a real kubelet.
func logRefusal(p *corev1.Pod, container string, previous bool) string {
	for _, status := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		switch {
		case status.Name != container:
			continue
		case previous && status.RestartCount == 0:
			return fmt.Sprintf("previous terminated container %q in pod %q not found", container, p.Name)
		}
		return ""
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: ContainerCreating", container, p.Name)
}

// runOf is the run of a pod; nil if it is simulated.
func (s *Simulator) runOf(p *corev1.Pod) *run {
	if r := s.runs.get(p.Namespace + "/" + p.Name); r != nil && r.pod.UID == p.UID {
		return r
	}
	return nil
}

// logFile is that of a container, or of the one before it; empty if it is simulated.
func (s *Simulator) logFile(p *corev1.Pod, container string, previous bool) string {
	r := s.runOf(p)
	if r == nil || r.container != container {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.previous != nil && (previous || r.process == nil):
		return r.previous.Log()
	case r.process != nil:
		return r.process.Log()
	}
	return ""
}

// logRequest is how much of a log is wanted; -1 is all.
type logRequest struct {
	file        string // empty: the container is simulated
	follow      bool
	tail, limit int64
}

// writeLog writes what there is and, if it is followed, what comes until the pod or the reader goes.
func (s *Simulator) writeLog(ctx context.Context, w http.ResponseWriter, p *corev1.Pod, l logRequest) error {
	var source io.Reader = bytes.NewReader([]byte("simulated: no container of this pod runs\n"))
	if l.file != "" {
		file, err := os.Open(l.file)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		source = file
	}
	text, err := io.ReadAll(source)
	if err != nil {
		return err
	}
	if l.tail >= 0 {
		text = lastLines(text, l.tail)
	}
	out := http.NewResponseController(w)
	looked := time.Now()
	for {
		if l.limit >= 0 {
			text = text[:min(l.limit, int64(len(text)))]
			l.limit -= int64(len(text))
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if !l.follow || l.limit == 0 {
			return nil
		}
		if err := out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPause):
		}
		if time.Since(looked) > podPause {
			if looked = time.Now(); !s.stillRuns(ctx, p) {
				return nil
			}
		}
		if text, err = io.ReadAll(source); err != nil {
			return err
		}
	}
}

func (s *Simulator) stillRuns(ctx context.Context, p *corev1.Pod) bool {
	now, err := s.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	return err == nil && now.UID == p.UID && now.Status.Phase == corev1.PodRunning
}

// lastLines is the end of a text; a last line without an end counts.
func lastLines(text []byte, n int64) []byte {
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	if n == 0 && at >= 0 {
		return text[min(at+1, len(text)):]
	}
	return text
}
