package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is below what the page is served. Its script reads the endpoints beside it, at ../inspect/.
const Path = "/debug/console/"

//go:embed assets
var embedded embed.FS

// policy lets the page load what is served beside it and nothing else. With trusted types, a browser refuses to turn text
// into markup, regardless of its author.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// asset is a file of the page.
type asset struct {
	content []byte
	kind    string
	tag     string // changes when the content does
}

// Handler serves the page and its assets below Path. They hold no data, so that they need no token.
func Handler() http.Handler {
	assets := readAssets()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(req.URL.Path, Path)
		if name == "" {
			name = "index.html"
		}
		a, found := assets[name]
		if !found {
			http.Error(w, "the page has no such file; it is at "+Path, http.StatusNotFound)
			return
		}
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "no-cache") // a new version is seen at once; the tag saves the transfer
		h.Set("ETag", a.tag)
		http.ServeContent(w, req, name, time.Time{}, bytes.NewReader(a.content))
	})
}

// readAssets reads what is embedded. It cannot fail: the files are part of the program.
func readAssets() map[string]asset {
	assets := map[string]asset{}
	entries, err := fs.ReadDir(embedded, "assets")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		content, err := fs.ReadFile(embedded, "assets/"+e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		assets[e.Name()] = asset{content: content, kind: contentType(e.Name()), tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return assets
}

// contentType does not depend on the machine, which may not know the types of scripts.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
