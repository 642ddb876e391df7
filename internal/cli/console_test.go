package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func TestWP_19_ConsoleServesOnThisMachineWithAToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cluster.json")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshottest.New(snapshottest.Options{Nodes: 3}).Encode(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	printed, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		cmd := newConsole(Streams{Out: out, In: strings.NewReader(""), LookupEnv: func(string) (string, bool) { return "", false }})
		cmd.SetArgs([]string{"--scenario", path})
		ended <- cmd.ExecuteContext(ctx)
		_ = out.Close()
	}()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err, <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, printed) }()
	address, err := url.Parse(regexp.MustCompile(`http://127\.0\.0\.1:\d+/debug/console/#token=\w{20,}`).FindString(line))
	if err != nil || address.Fragment == "" {
		t.Fatalf("printed %q, %v; want an address on this machine with a token", line, err)
	}
	token := strings.TrimPrefix(address.Fragment, "token=")
	for name, tc := range map[string]struct {
		path, token string
		status      int
	}{
		"the page":      {"/debug/console/", "", http.StatusOK},
		"the root":      {"/", "", http.StatusOK}, // leads to the page
		"data":          {"/debug/inspect/fleet", token, http.StatusOK},
		"no token":      {"/debug/inspect/fleet", "", http.StatusUnauthorized},
		"another token": {"/debug/inspect/fleet", token[1:], http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.Host+tc.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || resp.StatusCode != tc.status {
			t.Errorf("%s: got status %d, %v, want %d", name, resp.StatusCode, err, tc.status)
		}
		var fleet inspect.Fleet
		if name == "data" && (json.Unmarshal(body, &fleet) != nil || fleet.Totals.Nodes != 3) {
			t.Errorf("the fleet is %s, want 3 nodes", body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v, want no error when it is interrupted", err)
	}
}
