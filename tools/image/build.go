package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	ko "github.com/google/ko/pkg/build"
)

const (
	program = "github.com/dovetail-sh/dovetail/cmd/dovetail"
	source  = "https://github.com/dovetail-sh/dovetail"
)

// options are what makes one image differ from another, and where it is written.
type options struct {
	root      string
	version   string
	commit    string
	linker    string
	created   time.Time
	platforms []string
	layout    string
	sbom      string
}

// environment is what decides about the machine code; whatever the caller has set of it must not change the image. GOGC decides only
// about the compiler: less time, and memory for two of them at once.
func environment() []string {
	return []string{
		"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOGC=200",
	}
}

// labels are what the image says about itself, in its configuration and in its manifest.
func (o options) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":         "Dovetail",
		prefix + "description":   "A node autoscaler for Kubernetes",
		prefix + "url":           source,
		prefix + "source":        source,
		prefix + "documentation": source + "/tree/main/docs",
		prefix + "licenses":      "Apache-2.0",
		prefix + "version":       o.version,
		prefix + "revision":      o.commit,
		prefix + "created":       o.created.Format(time.RFC3339),
	}
}

func (o options) check() error {
	switch {
	case o.version == "":
		return fmt.Errorf("no version; give -version, as make image does")
	case o.commit == "":
		return fmt.Errorf("no commit; give -commit, as make image does")
	}
	if _, err := name.NewTag("dovetail:" + o.version); err != nil {
		return fmt.Errorf("version %q cannot be the tag of an image; give letters, digits, dots, - and _", o.version)
	}
	if _, err := os.Stat(filepath.Join(o.root, "cmd", "dovetail")); err != nil {
		return fmt.Errorf("%s is not the root of the repository: %w", o.root, err)
	}
	return replaceable(o.layout)
}

// build builds the image, writes the layout and returns the digest.
func build(ctx context.Context, o options) (v1.Hash, error) {
	if err := o.check(); err != nil {
		return v1.Hash{}, err
	}
	builder, err := newBuilder(ctx, o)
	if err != nil {
		return v1.Hash{}, err
	}
	result, err := builder.Build(ctx, ko.StrictScheme+program)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := write(o, result); err != nil {
		return v1.Hash{}, err
	}
	return result.Digest()
}

func newBuilder(ctx context.Context, o options) (ko.Interface, error) {
	base, err := newBase(o.platforms, o.created)
	if err != nil {
		return nil, err
	}
	// ko notes the name of the base; scratch is what everybody calls an image that is based on none.
	scratch, err := name.ParseReference("scratch")
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.created}
	settings := []ko.Option{
		ko.WithBaseImages(func(context.Context, string) (name.Reference, ko.Result, error) { return scratch, base, nil }),
		ko.WithConfig(map[string]ko.Config{program: {Env: environment(), Ldflags: ko.StringArray{"-s -w", o.linker}}}),
		ko.WithPlatforms(o.platforms...),
		ko.WithTrimpath(true),
		ko.WithCreationTime(created),
		ko.WithKoDataCreationTime(created),
		ko.WithUser(user),
		ko.WithSPDX(koVersion()),
		ko.WithSBOMDir(o.sbom),
		ko.WithJobs(1), // each go build keeps all cores busy
	}
	for key, value := range o.labels() {
		settings = append(settings, ko.WithLabel(key, value), ko.WithAnnotation(key, value))
	}
	return ko.NewGo(ctx, o.root, settings...)
}

// koVersion is what go.mod pins.
func koVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/google/ko" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// write replaces the layout as a whole, so that it never has two images or half of one.
func write(o options, result ko.Result) error {
	if err := os.MkdirAll(filepath.Dir(o.layout), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(o.layout), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	path, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return err
	}
	tag := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version})
	switch result := result.(type) {
	case v1.ImageIndex:
		err = path.AppendIndex(result, tag)
	case v1.Image:
		err = path.AppendImage(result, tag)
	default:
		err = fmt.Errorf("ko made a %T", result)
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(o.layout); err != nil {
		return err
	}
	return os.Rename(fresh, o.layout)
}

// replaceable keeps a mistyped -o from deleting a directory that is no layout.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case os.IsNotExist(err) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return err
	}
	if _, err := layout.FromPath(dir); err != nil {
		return fmt.Errorf("%s is there and is no OCI layout; give another directory with -o, or delete it", dir)
	}
	return nil
}
