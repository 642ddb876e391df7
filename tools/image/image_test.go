package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestLayoutIsValid(t *testing.T) {
	digest, images := theImage(t)
	index, err := layout.ImageIndexFromPath(filepath.Join(scratch, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(platforms(), slices.Sorted(maps.Keys(images))); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d images", len(manifest.Manifests))
	}
	if the := manifest.Manifests[0]; the.Digest != digest || the.Annotations["org.opencontainers.image.ref.name"] != testVersion {
		t.Errorf("the layout has %+v, want %s with tag %s", the, digest, testVersion)
	}
}

func TestConfiguration(t *testing.T) {
	_, images := theImage(t)
	for platform, image := range images {
		config := configOf(t, image)
		if config.Config.User != "65532:65532" {
			t.Errorf("%s runs as %q", platform, config.Config.User)
		}
		if diff := cmp.Diff([]string{"/ko-app/dovetail"}, config.Config.Entrypoint); diff != "" {
			t.Errorf("%s: entrypoint (-want +got):\n%s", platform, diff)
		}
		if created := config.Created.UTC(); !created.Equal(time.Unix(1_800_000_000, 0)) {
			t.Errorf("%s was created at %s", platform, created)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for where, labels := range map[string]map[string]string{"labels": config.Config.Labels, "annotations": manifest.Annotations} {
			for name, want := range map[string]string{
				"version": testVersion, "revision": testCommit, "source": "https://github.com/dovetail-sh/dovetail", "licenses": "Apache-2.0", "created": "2027-01-15T08:00:00Z",
			} {
				if got := labels["org.opencontainers.image."+name]; got != want {
					t.Errorf("%s: %s say %s is %q, want %q", platform, where, name, got, want)
				}
			}
		}
	}
}

// contents are the files of an image by name, and what tar says of them.
func contents(t *testing.T, image v1.Image) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, texts := map[string]*tar.Header{}, map[string][]byte{}
	whole := mutate.Extract(image)
	defer whole.Close()
	for r := tar.NewReader(whole); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		name := "/" + strings.Trim(header.Name, "/")
		headers[name] = header
		if texts[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The image has these files and no others: no shell, no package manager, nothing that anybody may write to.
func TestFiles(t *testing.T) {
	_, images := theImage(t)
	want := []string{
		"/etc", "/etc/group", "/etc/passwd", "/etc/ssl", "/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt", "/ko-app", "/ko-app/dovetail", "/var", "/var/run", "/var/run/ko",
	}
	for platform, image := range images {
		headers, texts := contents(t, image)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(headers))); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", platform, diff)
		}
		for name, header := range headers {
			if header.Mode&0o7222 != 0 || header.Uid != 0 || header.Gid != 0 {
				t.Errorf("%s: %s has mode %o of %d:%d, want one of root that is not writable, without setuid, setgid and sticky bits", platform, name, header.Mode, header.Uid, header.Gid)
			}
			if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir {
				t.Errorf("%s: %s is a %q", platform, name, header.Typeflag)
			}
			if header.ModTime.After(time.Unix(1_800_000_000, 0)) {
				t.Errorf("%s: %s is of %s", platform, name, header.ModTime)
			}
		}
		if !strings.Contains(string(texts["/etc/passwd"]), ":65532:65532:") || !strings.Contains(string(texts["/etc/group"]), ":65532:") {
			t.Errorf("%s: the user has no name", platform)
		}
	}
}

// The authorities that sign for AWS are those of https://www.amazontrust.com/repository/.
func TestAuthorities(t *testing.T) {
	_, images := theImage(t)
	_, texts := contents(t, images["linux/amd64"])
	var roots []string
	for block, rest := pem.Decode(texts["/etc/ssl/certs/ca-certificates.crt"]); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, root.Subject.CommonName)
	}
	for _, name := range []string{"Amazon Root CA 1", "Amazon Root CA 2", "Amazon Root CA 3", "Amazon Root CA 4", "Starfield Services Root Certificate Authority - G2"} {
		if !slices.Contains(roots, name) {
			t.Errorf("%s is missing among %q", name, roots)
		}
	}
}

// programOf is the binary of an image.
func programOf(t *testing.T, image v1.Image) []byte {
	t.Helper()
	_, texts := contents(t, image)
	return texts["/ko-app/dovetail"]
}

func TestProgramIsStatic(t *testing.T) {
	_, images := theImage(t)
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	for platform, image := range images {
		program, err := elf.NewFile(bytes.NewReader(programOf(t, image)))
		if err != nil {
			t.Fatalf("%s: %v", platform, err)
		}
		if program.Machine != machines[platform] {
			t.Errorf("%s: the program is for %s", platform, program.Machine)
		}
		for _, segment := range program.Progs {
			if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the program has a %s: it is not static", platform, segment.Type)
			}
		}
	}
}

func TestProgramTellsItsVersion(t *testing.T) {
	_, images := theImage(t)
	image, ok := images["linux/"+runtime.GOARCH]
	if runtime.GOOS != "linux" || !ok {
		t.Skipf("no program of the image runs on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	path := filepath.Join(t.TempDir(), "dovetail")
	if err := os.WriteFile(path, programOf(t, image), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "version").CombinedOutput()
	if want := "dovetail " + testVersion + " (commit " + testCommit + ", "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v, it says %q, want %q", err, out, want)
	}
}

// spdx is what of an SPDX document matters here.
type spdx struct {
	SPDXVersion  string
	CreationInfo struct{ Creators []string }
	Packages     []struct{ Name, VersionInfo string }
}

// The list of what is in an image has the image, the module, and every module that is linked into the program.
func TestSBOM(t *testing.T) {
	_, images := theImage(t)
	for platform, image := range images {
		text, err := os.ReadFile(filepath.Join(scratch, "sbom", "dovetail-"+strings.ReplaceAll(platform, "/", "-")+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var document spdx
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]string{}
		for _, p := range document.Packages {
			listed[p.Name] = p.VersionInfo
		}
		if _, ok := listed[digest.String()]; !ok || document.SPDXVersion == "" {
			t.Errorf("%s: a document of version %q without image %s", platform, document.SPDXVersion, digest)
		}
		info, err := buildinfo.Read(bytes.NewReader(programOf(t, image)))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := listed[info.Main.Path]; !ok || len(info.Deps) < 50 {
			t.Errorf("%s: %s with %d modules", platform, info.Main.Path, len(info.Deps))
		}
		for _, module := range info.Deps {
			if listed[module.Path] != module.Version {
				t.Errorf("%s: %s has version %q, and the program %q", platform, module.Path, listed[module.Path], module.Version)
			}
		}
	}
}

// Another clone in another place makes the same image. With DOVETAIL_DEEP it also compiles everything again.
func TestReproducible(t *testing.T) {
	digest, _ := theImage(t)
	clone := copyOfTheTree(t)
	if deep() {
		t.Setenv("GOCACHE", t.TempDir())
	}
	t.Setenv("GOAMD64", "v3") // what the caller has set does not matter
	t.Setenv("CGO_ENABLED", "1")
	again := t.TempDir()
	second, err := build(t.Context(), testOptions(clone, again))
	if err != nil {
		t.Fatal(err)
	}
	if second != digest {
		t.Errorf("the second build is %s, the first %s", second, digest)
	}
	documents, err := os.ReadDir(filepath.Join(scratch, "sbom"))
	if err != nil || len(documents) == 0 {
		t.Fatal("no SBOM", err)
	}
	for _, document := range documents {
		one, err := os.ReadFile(filepath.Join(scratch, "sbom", document.Name()))
		other, errOther := os.ReadFile(filepath.Join(again, "sbom", document.Name()))
		if err := errors.Join(err, errOther); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s differs: %v", document.Name(), err)
		}
	}
}

// copyOfTheTree has the root module, and no version control.
func copyOfTheTree(t *testing.T) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "a clone")
	if err := os.MkdirAll(clone, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r"}
	for _, name := range []string{"go.mod", "go.sum", "api", "cmd", "iam", "internal"} {
		args = append(args, filepath.Join("..", "..", name))
	}
	if out, err := exec.CommandContext(t.Context(), "cp", append(args, clone)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return clone
}
