package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is whom the program runs as, by number: the kubelet refuses to start a name where runAsNonRoot is set.
const (
	user   = "65532:65532"
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// file is one file of the base, readable by all and writable by none.
type file struct {
	name string // a name that ends in a slash is a directory
	text string
}

// baseFiles are what a static program needs that makes TLS connections: certificate authorities, and a name for its user.
func baseFiles() []file {
	return []file{
		{name: "etc/"},
		{name: "etc/group", text: group},
		{name: "etc/passwd", text: passwd},
		{name: "etc/ssl/"},
		{name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", text: authorities()},
	}
}

// authorities are the roots of Mozilla's list as PEM. Those that Mozilla trusts with conditions are left out: a file has no
// way to say them, and they are on their way off the list.
func authorities() string {
	var text strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.String()
}

// newBase is an index with the same files for each platform.
func newBase(platforms []string, created time.Time) (v1.ImageIndex, error) {
	layer, err := newLayer(baseFiles(), created)
	if err != nil {
		return nil, err
	}
	var members []mutate.IndexAddendum
	for _, name := range platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("platform %q is malformed; give an operating system and an architecture, such as linux/amd64", name)
		}
		image, err := newBaseImage(layer, *platform, created)
		if err != nil {
			return nil, err
		}
		members = append(members, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), members...), nil
}

func newBaseImage(layer v1.Layer, platform v1.Platform, created time.Time) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Created: v1.Time{Time: created}, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "tools/image", Comment: "certificate authorities and users"},
	})
}

// newLayer has the files in the order given, owned by root and all of one age, so that equal files give equal layers.
func newLayer(files []file, modified time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o444, Size: int64(len(f.text)), ModTime: modified}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o555
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
