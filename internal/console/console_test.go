package console_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/console"
)

func get(t *testing.T, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, path, http.NoBody)
	req.Header = header
	w := httptest.NewRecorder()
	console.Handler().ServeHTTP(w, req)
	return w
}

func TestWP_02_EveryAssetIsServedWithItsHeaders(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	names := []string{""}
	err := fs.WalkDir(os.DirFS("assets"), ".", func(path string, entry fs.DirEntry, err error) error {
		if !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("found %d assets, %v", len(names), err)
	}
	for _, name := range names {
		r := get(t, http.MethodGet, console.Path+name, nil)
		want := kinds[filepath.Ext(name)]
		if name == "" {
			want = kinds[".html"]
		}
		if r.Code != http.StatusOK || r.Header().Get("Content-Type") != want {
			t.Errorf("%q: got status %d, type %q, want 200, %q", name, r.Code, r.Header().Get("Content-Type"), want)
		}
		policy := r.Header().Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, directive) {
				t.Errorf("%q: the policy %q lacks %s", name, policy, directive)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%q: the policy %q allows too much", name, policy)
		}
		for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": "no-cache"} {
			if got := r.Header().Get(header); got != want {
				t.Errorf("%q: got %s %q, want %q", name, header, got, want)
			}
		}
		tag := r.Header().Get("ETag")
		if again := get(t, http.MethodGet, console.Path+name, http.Header{"If-None-Match": {tag}}); tag == "" || again.Code != http.StatusNotModified {
			t.Errorf("%q with tag %s: got status %d, want 304", name, tag, again.Code)
		}
	}
}

func TestWP_02_NothingElseIsServed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		want         int
	}{
		"a file that is none":   {http.MethodGet, console.Path + "secrets.txt", http.StatusNotFound},
		"the directory":         {http.MethodGet, console.Path + "assets/", http.StatusNotFound},
		"a file of the program": {http.MethodGet, console.Path + "../console.go", http.StatusNotFound},
		"a write":               {http.MethodPost, console.Path, http.StatusMethodNotAllowed},
		"only the header":       {http.MethodHead, console.Path, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := get(t, tc.method, tc.path, nil)
			if r.Code != tc.want || r.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("got status %d, policy %q, want %d", r.Code, r.Header().Get("Content-Security-Policy"), tc.want)
			}
		})
	}
}

// What the files name exists, is relative, and is on this server: the page works below any prefix of a proxy.
func TestWP_03_ThePageNamesOnlyItsOwnFiles(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, e := range entries {
		known = append(known, e.Name())
	}
	reference := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from '\./([^']+)'`)
	named := []string{"index.html"}
	for _, name := range known {
		text, err := os.ReadFile(filepath.Join("assets", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			file := m[1] + m[2]
			named = append(named, file)
			if !slices.Contains(known, file) {
				t.Errorf("%s names %s, which is no file of the page", name, file)
			}
		}
		if other := regexp.MustCompile(`https?://[^"' ]*`).FindString(string(text)); other != "" && !strings.HasPrefix(other, "http://www.w3.org/") {
			t.Errorf("%s names another host: %s", name, other)
		}
		if danger := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style="|\son[a-z]+="`).FindString(string(text)); danger != "" {
			t.Errorf("%s has %s: what comes from the cluster may become text only", name, danger)
		}
	}
	for _, name := range known {
		if !slices.Contains(named, name) {
			t.Errorf("nothing names %s", name)
		}
	}
}
