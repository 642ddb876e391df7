package fakenode

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// serveKubelet serves the logs of three pods: one with a file, one without, and one that has not begun.
func serveKubelet(t *testing.T) (server *httptest.Server, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if p.Status.Phase = phase; phase == corev1.PodRunning {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
		}
		return p
	}
	client := fake.NewClientset(pod("file", corev1.PodRunning), pod("none", corev1.PodRunning), pod("new", corev1.PodPending))
	s, err := New(Options{Client: client, Cloud: newFixedCloud()})
	if err != nil {
		t.Fatal(err)
	}
	s.runs.set("ns/file", &run{pod: pod("file", corev1.PodRunning), container: "main", process: logged(file)})
	server = httptest.NewServer(s.KubeletAPI())
	t.Cleanup(server.Close)
	return server, file
}

// logged is a process that only has a log.
type logged string

func (logged) Done() <-chan struct{} { return nil }
func (logged) ExitCode() int32       { return 0 }
func (logged) Stop(bool)             {}
func (logged) Address(int32) string  { return "" }
func (l logged) Log() string         { return string(l) }

// getResponse returns the status and the body, which is closed when the test ends.
func getResponse(ctx context.Context, t *testing.T, address string) (int, io.Reader) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode, response.Body
}

func TestContainerLogs(t *testing.T) {
	t.Parallel()
	server, _ := serveKubelet(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/containerLogs/ns/file/main":                           {http.StatusOK, "one\ntwo\nthree\n"},
		"/containerLogs/ns/file/main?tailLines=2":               {http.StatusOK, "two\nthree\n"},
		"/containerLogs/ns/file/main?tailLines=0":               {http.StatusOK, ""},
		"/containerLogs/ns/file/main?limitBytes=5":              {http.StatusOK, "one\nt"},
		"/containerLogs/ns/file/main?limitBytes=5&follow=true":  {http.StatusOK, "one\nt"},
		"/containerLogs/ns/file/main?tailLines=x":               {http.StatusBadRequest, "is no number"},
		"/containerLogs/ns/file/main?tailLines=-1":              {http.StatusBadRequest, "is no number"},
		"/containerLogs/ns/file/main?previous=true":             {http.StatusBadRequest, "previous terminated container"},
		"/containerLogs/ns/none/main":                           {http.StatusOK, "simulated"},
		"/containerLogs/ns/new/main":                            {http.StatusBadRequest, "waiting to start"},
		"/containerLogs/ns/file/other":                          {http.StatusBadRequest, "waiting to start"},
		"/containerLogs/ns/missing/main":                        {http.StatusNotFound, "not found"},
		"/containerLogs/../../etc/passwd":                       {http.StatusNotImplemented, "only logs"},
		"/exec/ns/file/main?command=ls":                         {http.StatusNotImplemented, "only logs"},
		"/containerLogs/ns/file/main?tailLines=1&limitBytes=99": {http.StatusOK, "three\n"},
	} {
		status, body := getResponse(t.Context(), t, server.URL+path)
		text, err := io.ReadAll(body)
		exact := want.status == http.StatusOK && want.text != "simulated"
		if err != nil || status != want.status || !strings.Contains(string(text), want.text) || exact && string(text) != want.text {
			t.Errorf("%s: %d %q, want %d %q; %v", path, status, text, want.status, want.text, err)
		}
	}
}

// Who follows a log sees what is added, until he goes.
func TestFollowedLog(t *testing.T) {
	t.Parallel()
	server, file := serveKubelet(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, body := getResponse(ctx, t, server.URL+"/containerLogs/ns/file/main?follow=true&tailLines=1")
	lines := bufio.NewScanner(body)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("line %q, want %q; %v", lines.Text(), want, lines.Err())
		}
	}
	next("three")
	log, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	for _, line := range []string{"four", "five"} {
		if _, err := log.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
		next(line)
	}
}
